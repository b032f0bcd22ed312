package controller

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// listen listens on an address. A server that kube-apiserver on the same machine asks is there at
// localhost, too, whichever address it is given for others.
func listen(ctx context.Context, address string, local bool) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr)
	if !local || at.IP.IsUnspecified() || at.IP.IsLoopback() {
		return l, nil
	}
	own, err := c.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port)))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return both(l, own), nil
}

// twoListeners accepts what two listeners do. Its address is that of the first.
type twoListeners struct {
	net.Listener
	second net.Listener
	taken  chan accepted
	ended  chan struct{}
	once   sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func both(first, second net.Listener) *twoListeners {
	b := &twoListeners{Listener: first, second: second, taken: make(chan accepted), ended: make(chan struct{})}
	for _, l := range []net.Listener{first, second} {
		go b.accept(l)
	}
	return b
}

// accept hands over what one of the two accepts until it is closed.
func (b *twoListeners) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		select {
		case b.taken <- accepted{conn, err}:
		case <-b.ended:
			if conn != nil {
				_ = conn.Close() // nobody takes it any more
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (b *twoListeners) Accept() (net.Conn, error) {
	select {
	case a := <-b.taken:
		return a.conn, a.err
	case <-b.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (b *twoListeners) Close() (err error) {
	b.once.Do(func() {
		close(b.ended)
		err = errors.Join(b.Listener.Close(), b.second.Close())
	})
	return err
}
