package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// upstream is the API server of the cluster.
type upstream struct {
	base      url.URL
	transport http.RoundTripper
	// carries says that the transport has the credentials of the person (mode Local). Otherwise it
	// has none, and a request without a token is not sent.
	carries bool
}

func newUpstream(cfg *rest.Config, mode Mode) (*upstream, error) {
	if mode == Cluster {
		cfg = rest.AnonymousClientConfig(cfg)
	} else {
		cfg = rest.CopyConfig(cfg)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("address of the cluster: %w", err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("credentials of the cluster: %w", err)
	}
	return &upstream{base: *base, transport: transport, carries: mode == Local}, nil
}

// call is a request to the API server: all that is sent.
type call struct {
	method string
	// path is below the root of the API server, without a slash in front.
	path  string
	query url.Values
	// kind and accept are the media types of the body and of the answer; empty means JSON.
	kind, accept string
	body         io.Reader
}

// do sends a call with the identity of a person. It follows no redirects.
func (u *upstream) do(ctx context.Context, who identity, c call) (*http.Response, error) {
	token, err := who.bearer(ctx)
	if err != nil {
		return nil, err
	}
	if token == "" && !u.carries {
		return nil, errors.New("there are no credentials")
	}
	to := u.base.JoinPath(c.path)
	to.RawQuery = c.query.Encode()
	req, err := http.NewRequestWithContext(ctx, c.method, to.String(), c.body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "nephele-console")
	req.Header.Set("Accept", "application/json")
	if c.accept != "" {
		req.Header.Set("Accept", c.accept)
	}
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return u.transport.RoundTrip(req)
}

func (u *upstream) close() { utilnet.CloseIdleConnectionsFor(u.transport) }
