// Package listen listens for a server that other machines and kube-apiserver on this one reach.
//
// It owns the listeners, which accept as one; they may be closed from anywhere.
package listen

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
)

// On listens on an address. A server that kube-apiserver on the same machine calls also listens at
// localhost, whatever its address for others is. Until leads is closed, if it is not nil, it closes
// each connection at once, so that the caller tries another server.
func On(ctx context.Context, address string, local bool, leads <-chan struct{}) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr)
	all := []net.Listener{l}
	if local && !at.IP.IsUnspecified() && !at.IP.IsLoopback() {
		own, err := c.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port)))
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		all = append(all, own)
	}
	if len(all) == 1 && leads == nil {
		return l, nil
	}
	return accepting(leads, all...), nil
}

// listeners accepts what several listeners do. Its address is that of the first.
type listeners struct {
	net.Listener
	all   []net.Listener
	open  <-chan struct{}
	taken chan accepted
	ended chan struct{}
	once  sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

// accepting accepts what listeners do from when open is closed; nil means from now on.
func accepting(open <-chan struct{}, all ...net.Listener) *listeners {
	b := &listeners{Listener: all[0], all: all, open: open, taken: make(chan accepted), ended: make(chan struct{})}
	for _, l := range all {
		go b.accept(l)
	}
	return b
}

func (b *listeners) isOpen() bool {
	if b.open == nil {
		return true
	}
	select {
	case <-b.open:
		return true
	default:
		return false
	}
}

// accept hands over what one of the listeners accepts until it is closed.
func (b *listeners) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err == nil && !b.isOpen() {
			_ = conn.Close()
			continue
		}
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
func (b *listeners) Accept() (net.Conn, error) {
	select {
	case a := <-b.taken:
		return a.conn, a.err
	case <-b.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (b *listeners) Close() (err error) {
	b.once.Do(func() {
		close(b.ended)
		for _, l := range b.all {
			err = errors.Join(err, l.Close())
		}
	})
	return err
}
