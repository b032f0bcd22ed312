package aws

import (
	"io"
	"net/http"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// attemptTimeout bounds one attempt of one call, the reading of its answer included.
const attemptTimeout = 30 * time.Second

func defaultClient() awssdk.HTTPClient {
	return awshttp.NewBuildableClient().WithTimeout(attemptTimeout).Freeze()
}

// calmClient keeps net/http and the SDK from breaking connections between them. The SDK closes the body of a request as soon as the
// answer begins; if net/http has not yet looked for the end of that body by then, the body's WriteTo hands it io.EOF as an error,
// and it closes the connection while the answer is being read. A cloud that is near answers fast enough for that to happen to one
// call in thirty. A body without WriteTo reports its end as the end.
type calmClient struct{ client awssdk.HTTPClient }

// Do sends the request.
func (c calmClient) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	return c.client.Do(req)
}
