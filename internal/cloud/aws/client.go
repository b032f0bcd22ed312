package aws

import (
	"errors"
	"io"
	"net/http"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"

	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// attemptTimeout bounds one attempt of one call, the reading of its answer included.
const attemptTimeout = 30 * time.Second

// gate is what every request of an account passes, and every answer: the one goes where it may
// only, the other has an end.
type gate struct {
	client  awssdk.HTTPClient
	reach   reach
	answers *bounds.Answers
}

// Do sends the request.
//
// It also keeps net/http and the SDK from breaking connections between them. The SDK closes the
// body of a request as soon as the answer begins; if net/http has not yet looked for the end of
// that body by then, the body's WriteTo hands it io.EOF as an error, and it closes the connection
// while the answer is being read. A cloud that is near answers fast enough for that to happen to
// one call in thirty. A body without WriteTo reports its end as the end.
func (g gate) Do(req *http.Request) (*http.Response, error) {
	if err := g.reach.check(req.URL); err != nil {
		return nil, &awssdk.RequestCanceledError{Err: err} // of all errors the one that is not tried again
	}
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	resp, err := g.client.Do(req)
	var refused *egress.RefusedError
	if errors.As(err, &refused) {
		return nil, &awssdk.RequestCanceledError{Err: g.reach.notAllowed("endpoint "+req.URL.Host, refused)}
	}
	if err == nil {
		resp.Body = g.answers.Bound(req.Context(), resp, awsmiddleware.GetOperationName(req.Context()))
	}
	return resp, err
}
