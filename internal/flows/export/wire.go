package export

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// wire is a connection to a server, which is made when something is sent.
type wire struct {
	network, address string
	secure           bool
	conn             net.Conn
}

// newWire reads udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT.
func newWire(to string) (wire, error) {
	wrong := fmt.Errorf("%q: want udp://HOST:PORT, tcp://HOST:PORT or tls://HOST:PORT", to)
	u, err := url.Parse(to)
	if err != nil || u.Port() == "" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return wire{}, wrong
	}
	switch u.Scheme {
	case "udp", "tcp":
		return wire{network: u.Scheme, address: u.Host}, nil
	case "tls":
		return wire{network: "tcp", address: u.Host, secure: true}, nil
	}
	return wire{}, wrong
}

// open connects if there is no connection, and bounds what is written by ctx.
func (w *wire) open(ctx context.Context) (err error) {
	if w.conn == nil {
		var c net.Conn
		if w.secure {
			c, err = (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, w.network, w.address)
		} else {
			c, err = new(net.Dialer).DialContext(ctx, w.network, w.address)
		}
		if err != nil {
			return err
		}
		w.conn = c
	}
	if deadline, has := ctx.Deadline(); has {
		_ = w.conn.SetWriteDeadline(deadline)
	}
	return nil
}

// Close implements Sink.
func (w *wire) Close() (err error) {
	if w.conn != nil {
		err = w.conn.Close()
	}
	w.conn = nil
	return err
}
