package sim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Transport returns a transport for clients of the AWS SDK for Go v2 that talk to a simulator on
// the same machine.
//
// The SDK (smithy-go 1.28) closes the body of a request as soon as the head of the answer is there.
// net/http may at that moment still be looking for the end of that body, gets an error from the
// closed one and cuts the connection: the rest of an answer of more than a few kilobytes is lost.
// Only a server that answers within microseconds meets this. The transport reads the body first and
// sends it in one piece, after which net/http does not touch it again.
func Transport(base http.RoundTripper) http.RoundTripper {
	return wholeBody{base}
}

type wholeBody struct{ base http.RoundTripper }

// RoundTrip sends a copy of the request, as a transport must not change the caller's.
func (t wholeBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.base.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if closeErr := r.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, fmt.Errorf("read the body of the request: %w", err)
	}
	whole := r.Clone(r.Context())
	whole.Body = io.NopCloser(bytes.NewReader(body))
	whole.ContentLength = int64(len(body))
	return t.base.RoundTrip(whole)
}
