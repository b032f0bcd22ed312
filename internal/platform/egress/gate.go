package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// Gate decides of every request at the last moment whether it may be sent. It is for processes that
// take turns: one that has lost its turn while it slept must not send what it had prepared.
type Gate interface {
	// Pass is asked before a request, which may change something. The request is made with the
	// context, and done is called when its answer was read or it has failed.
	Pass(ctx context.Context, changes bool) (with context.Context, done func(), err error)
	// Trusted is asked before bytes are written to a connection.
	Trusted() error
}

type changeKey struct{}

// WithChange marks the requests that are made with the context as changing something.
func WithChange(ctx context.Context) context.Context {
	return context.WithValue(ctx, changeKey{}, true)
}

// Gated has every request pass a gate. What the method or WithChange says changes something.
func Gated(next http.RoundTripper, g Gate) http.RoundTripper {
	if g == nil {
		return next
	}
	return gated{next, g}
}

type gated struct {
	next http.RoundTripper
	gate Gate
}

// RoundTrip implements http.RoundTripper.
func (t gated) RoundTrip(r *http.Request) (*http.Response, error) {
	marked, _ := r.Context().Value(changeKey{}).(bool)
	written := r.Method == http.MethodPut || r.Method == http.MethodPatch || r.Method == http.MethodDelete
	ctx, done, err := t.gate.Pass(r.Context(), marked || written)
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		if cause := context.Cause(ctx); cause != nil && r.Context().Err() == nil {
			err = errors.Join(cause, err)
		}
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, done: sync.OnceFunc(done)}
	return resp, nil
}

// body tells when it was read.
type body struct {
	io.ReadCloser
	done func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// Dialer is a DialContext of an http.Transport.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// GatedDial has every piece of every request pass a gate once more, behind encryption and buffers,
// in the goroutine that writes it: what is between the question and the kernel is a few
// instructions.
func GatedDial(dial Dialer, g Gate) Dialer {
	if g == nil {
		return dial
	}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{c, g}, nil
	}
}

type gatedConn struct {
	net.Conn
	gate Gate
}

// Write implements net.Conn.
func (c *gatedConn) Write(p []byte) (int, error) {
	if err := c.gate.Trusted(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
