package controlplane

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
)

// reread is how old the certificate may be that requests within the process show.
const reread = 10 * time.Minute

// InProcess is RestConfig for clients in this process, of which every request counts: they call the
// API server's handler, without connections and their encryption. They show the administrator's
// certificate, and all that decides about requests does. What is for another address goes there, as
// do requests that change the protocol or have other credentials, and clients made from
// rest.AnonymousClientConfig.
func (cp *ControlPlane) InProcess() *rest.Config {
	cfg := cp.RestConfig()
	here := &inProcess{handler: cp.handler, host: cp.creds.address.String(), file: cfg.CertFile, now: cp.opts.Now}
	cfg.WrapTransport = func(elsewhere http.RoundTripper) http.RoundTripper {
		return within{here, elsewhere}
	}
	return cfg
}

// inProcess is an API server in this process, as clients with the certificate in a file see it. It
// is safe for concurrent use.
type inProcess struct {
	handler    http.Handler
	host, file string
	now        func() time.Time

	mu    sync.Mutex
	shown *tls.ConnectionState // not written to
	since time.Time
}

// within is the transport of one client.
type within struct {
	*inProcess
	elsewhere http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w within) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != w.host || req.Header.Get("Upgrade") != "" || req.Header.Get("Authorization") != "" {
		return w.elsewhere.RoundTrip(req)
	}
	state, err := w.identity()
	if err != nil {
		return w.elsewhere.RoundTrip(req)
	}
	return w.serve(req, state)
}

// identity is what a connection with the client's certificate would tell of it.
func (p *inProcess) identity() (*tls.ConnectionState, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if age := now.Sub(p.since); p.shown != nil && age >= 0 && age < reread {
		return p.shown, nil
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	chain, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("read the client's certificate: %w", err)
	}
	p.shown, p.since = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, PeerCertificates: []*x509.Certificate{chain[0]}}, now
	return p.shown, nil
}

// serve has the handler answer a request. It returns when the header of the answer is there; the
// handler goes on until it is done, or the body is closed, or the request is canceled.
func (p *inProcess) serve(req *http.Request, state *tls.ConnectionState) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	in := req.Clone(ctx)
	in.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	in.RequestURI, in.Host, in.RemoteAddr, in.TLS = req.URL.RequestURI(), p.host, "127.0.0.1:0", state
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	if in.Body == nil {
		in.Body = http.NoBody
	}
	out, to := io.Pipe()
	a := &answer{ctx: ctx, header: http.Header{}, ready: make(chan struct{}), body: bufio.NewWriter(to)}
	context.AfterFunc(ctx, func() { _ = out.CloseWithError(ctx.Err()) })
	go func() {
		defer in.Body.Close()
		defer func() {
			// As on a connection, nothing else follows an answer that was given up.
			if why := recover(); why != nil {
				if why != http.ErrAbortHandler {
					klog.ErrorS(nil, "A request within the process has panicked", "path", in.URL.Path, "panic", why)
				}
				_ = to.CloseWithError(io.ErrUnexpectedEOF)
				a.fail()
			}
		}()
		p.handler.ServeHTTP(a, in)
		a.WriteHeader(http.StatusOK)
		_ = to.CloseWithError(a.body.Flush())
	}()
	select {
	case <-a.ready:
	case <-ctx.Done():
		cancel()
		return nil, req.Context().Err()
	}
	if a.status == 0 {
		cancel()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status, Proto: in.Proto, ProtoMajor: in.ProtoMajor,
		Header: a.sent, Body: body{out, cancel}, ContentLength: -1, Request: req, TLS: state,
	}, nil
}

// body is that of an answer. Closing it lets the handler end.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b body) Close() error {
	err := b.PipeReader.Close()
	b.cancel()
	return err
}

// answer takes what the handler says. One goroutine may use it at a time, as any
// http.ResponseWriter.
type answer struct {
	ctx    context.Context
	header http.Header
	body   *bufio.Writer

	once  sync.Once
	ready chan struct{} // closed when status and sent are known; without a status there is no answer
	// status and sent are the head of the answer.
	status int
	sent   http.Header
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status < http.StatusOK {
		return // there may be any number of these, and no one asks for them
	}
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.ready)
	})
}

// fail says that there is no answer, if none has begun.
func (a *answer) fail() { a.once.Do(func() { close(a.ready) }) }

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is Flush for http.ResponseController.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	return a.body.Flush()
}

// CloseNotify implements http.CloseNotifier, without which the API server takes no one for a client
// that can be told something bit by bit.
func (a *answer) CloseNotify() <-chan bool {
	gone := make(chan bool, 1)
	context.AfterFunc(a.ctx, func() { gone <- true })
	return gone
}

// SetReadDeadline and SetWriteDeadline are for http.ResponseController: the context of the request
// ends it.
func (a *answer) SetReadDeadline(time.Time) error { return errors.ErrUnsupported }

// SetWriteDeadline is SetReadDeadline for what is written.
func (a *answer) SetWriteDeadline(time.Time) error { return errors.ErrUnsupported }
