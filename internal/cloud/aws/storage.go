package aws

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws/bounds"
	"github.com/nephele-io/nephele/internal/cloud/aws/failure"
)

// This file reads objects of S3: two calls, which need no client of that service.

const (
	// emptyHash is the SHA-256 of a request without a body.
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	// listingBytes bounds a page of a listing, which has 1,000 names of 1,024 bytes at most, and
	// errorTextBytes the text of an error.
	listingBytes   = 16 << 20
	errorTextBytes = 64 << 10
	longestKey     = 1024

	encodingURL = "url"

	// codeSkewed is the error for a request of another time.
	codeSkewed = "RequestTimeTooSkewed"
)

var (
	_ cloud.Storage = (*Provider)(nil)
	_ cloud.Clocked = (*Provider)(nil)
)

// Ahead implements cloud.Clocked.
func (p *Provider) Ahead() time.Duration { return time.Duration(p.ahead.Load()) }

// listing is a page of ListObjectsV2.
type listing struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool     `xml:"IsTruncated"`
	// EncodingType is "url" if keys are escaped, as was asked for; not every server does that.
	EncodingType string `xml:"EncodingType"`
	Contents     []struct {
		Key          string    `xml:"Key"`
		LastModified time.Time `xml:"LastModified"`
		ETag         string    `xml:"ETag"`
		Size         int64     `xml:"Size"`
	} `xml:"Contents"`
}

// Objects implements cloud.Storage.
func (p *Provider) Objects(ctx context.Context, at cloud.Bucket, prefix, after string) (out []cloud.StoredObject, next string, err error) {
	q := url.Values{"list-type": {"2"}, "prefix": {prefix}, "max-keys": {"1000"}, "encoding-type": {encodingURL}}
	if after != "" {
		q.Set("start-after", after)
	}
	const call = bounds.CallListObjects
	answer, err := p.get(ctx, call, at, "", q)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Close() }()
	var page listing
	if err := xml.NewDecoder(io.LimitReader(answer, listingBytes)).Decode(&page); err != nil {
		return nil, "", &cloud.Error{Class: cloud.Unavailable, Call: call, Err: fmt.Errorf("the listing cannot be read: %w", err)}
	}
	for _, c := range page.Contents {
		name, err := c.Key, error(nil)
		if page.EncodingType == encodingURL {
			name, err = url.QueryUnescape(c.Key)
		}
		if err != nil || len(name) > longestKey || !strings.HasPrefix(name, prefix) || name <= after || c.Size < 0 {
			return nil, "", &cloud.Error{Class: cloud.Unavailable, Call: call, Err: fmt.Errorf("the listing has %.100q, which was not asked for", c.Key)}
		}
		out, after = append(out, cloud.StoredObject{Name: name, Size: c.Size, Changed: c.LastModified, Tag: c.ETag}), name
	}
	if page.IsTruncated && len(out) > 0 {
		next = after
	}
	return out, next, nil
}

// Object implements cloud.Storage.
func (p *Provider) Object(ctx context.Context, at cloud.Bucket, name string) (io.ReadCloser, error) {
	return p.get(ctx, bounds.CallGetObject, at, name, nil)
}

// get asks S3 of the region of a bucket, by the path of the bucket: the host is that of the service
// then, and no bucket's.
func (p *Provider) get(ctx context.Context, call string, at cloud.Bucket, name string, q url.Values) (body io.ReadCloser, err error) {
	ctx = awsmiddleware.SetOperationName(ctx, call) // by which the answer is bounded
	region := cmp.Or(at.Region, p.cfg.Region)
	base := "https://s3." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		base += ".cn"
	}
	base = cmp.Or(p.cfg.Endpoint, base)
	u, err := url.Parse(base)
	if err != nil {
		return nil, &cloud.Error{Class: cloud.Terminal, Call: call, Err: err}
	}
	u.Path = "/" + at.Name + "/" + name
	u.RawPath = escapedPath(u.Path)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	if p.cfg.Admit != nil {
		var done func(cloud.Class)
		if done, err = p.cfg.Admit(ctx, p.knownOwner(), region, call); err != nil {
			return nil, err
		}
		if done != nil {
			defer func() {
				class := cloud.Class("")
				if err != nil {
					class = cloud.ClassOf(err)
				}
				done(class)
			}()
		}
	}
	before := p.Ahead()
	body, err = p.signed(ctx, u.String(), region)
	var said smithy.APIError
	if errors.As(err, &said) && said.ErrorCode() == codeSkewed && p.Ahead() != before { // now it is known what time it is there
		body, err = p.signed(ctx, u.String(), region)
	}
	if err != nil {
		return nil, failure.Classify(call, err, p.cfg.Now())
	}
	return body, nil
}

// signed asks once, at the time that it is there as far as that is known.
func (p *Provider) signed(ctx context.Context, to, region string) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, err
	}
	creds, err := p.base.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Amz-Content-Sha256", emptyHash)
	sign := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true } // S3's names are escaped once
	if err = v4.NewSigner().SignHTTP(ctx, creds, r, emptyHash, "s3", region, p.cfg.Now().Add(p.Ahead()), sign); err != nil {
		return nil, err
	}
	answer, err := p.base.HTTPClient.Do(r)
	if err != nil {
		return nil, &smithyhttp.RequestSendError{Err: err}
	}
	if by, ok := cloud.AheadBy(answer.Header.Get("Date"), p.cfg.Now()); ok {
		p.ahead.Store(int64(by))
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, storageError(answer)
}

// storageError is what S3 says in place of an answer.
func storageError(answer *http.Response) error {
	var said struct {
		Code, Message string
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, errorTextBytes))
	if err != nil || xml.Unmarshal(text, &said) != nil || said.Code == "" {
		said.Code, said.Message = fmt.Sprintf("HTTP%d", answer.StatusCode), http.StatusText(answer.StatusCode)
	}
	if answer.StatusCode == http.StatusMovedPermanently || said.Code == "PermanentRedirect" {
		said.Message += "; the bucket is in the region " + answer.Header.Get("x-amz-bucket-region")
	}
	return &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: answer}, Err: &smithy.GenericAPIError{Code: said.Code, Message: said.Message, Fault: smithy.FaultClient},
	}
}

// escapedPath escapes all but what names of objects may hold as they are, and slashes.
func escapedPath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
