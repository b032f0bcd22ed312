// Package sigv4 checks AWS Signature Version 4 as a service does: it reads the Authorization header
// of a request, rebuilds the canonical request from what arrived and compares the signature with
// the one that the caller's secret gives.
//
// It owns no state, starts no goroutine and reads no clock: the time to judge a request by is an
// argument. All functions may be called concurrently.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	// TimeFormat is the layout of the X-Amz-Date header (ISO 8601, basic format, UTC).
	TimeFormat = "20060102T150405Z"
	// MaxSkew is how far the date of a request may lie from the time of the service, in either
	// direction.
	MaxSkew = 15 * time.Minute
)

// Errors that Parse and Verify wrap; what a service answers to them differs between services.
var (
	// ErrMissing means that the request carries no Authorization header.
	ErrMissing = errors.New("request is not signed")
	// ErrMalformed means that the header or the date cannot be read as Signature Version 4.
	ErrMalformed = errors.New("malformed signature")
	// ErrExpired means that the date of the request is more than MaxSkew away from now.
	ErrExpired = errors.New("request expired")
	// ErrMismatch means that the signature is not the one that the secret gives for this request.
	ErrMismatch = errors.New("signature does not match")
)

// Authorization is the content of an Authorization header.
type Authorization struct {
	// AccessKeyID names the caller's key.
	AccessKeyID string
	// Date (YYYYMMDD), Region and Service are the credential scope.
	Date, Region, Service string
	// SignedHeaders are the names of the signed headers, lower case, in the order of the header.
	SignedHeaders []string
	// Signature is the hexadecimal signature.
	Signature string
}

// Scope returns the credential scope as it appears in the string to sign.
func (a Authorization) Scope() string {
	return strings.Join([]string{a.Date, a.Region, a.Service, terminator}, "/")
}

// Parse reads the Authorization header of r. The error wraps ErrMissing or ErrMalformed.
func Parse(r *http.Request) (Authorization, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return Authorization{}, ErrMissing
	}
	rest, ok := strings.CutPrefix(header, algorithm)
	if !ok || !strings.HasPrefix(rest, " ") {
		return Authorization{}, fmt.Errorf("%w: the Authorization header must start with %q", ErrMalformed, algorithm)
	}
	var a Authorization
	var credential, headers string
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "Credential":
			credential = value
		case "SignedHeaders":
			headers = value
		case "Signature":
			a.Signature = value
		}
	}
	// An access key never holds a slash, so the scope is exactly the last four parts.
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || slices.Contains(parts, "") || parts[4] != terminator {
		return Authorization{}, fmt.Errorf("%w: Credential must be KEY/DATE/REGION/SERVICE/%s", ErrMalformed, terminator)
	}
	a.AccessKeyID, a.Date, a.Region, a.Service = parts[0], parts[1], parts[2], parts[3]
	if headers == "" || a.Signature == "" {
		return Authorization{}, fmt.Errorf("%w: SignedHeaders and Signature are required", ErrMalformed)
	}
	a.SignedHeaders = strings.Split(headers, ";")
	if !slices.Contains(a.SignedHeaders, "host") {
		return Authorization{}, fmt.Errorf("%w: the Host header must be signed", ErrMalformed)
	}
	return a, nil
}

// Verify checks the signature a of the request r with this body against the caller's secret, and
// the request's date against now. The error wraps ErrMalformed, ErrExpired or ErrMismatch.
func (a Authorization) Verify(r *http.Request, body []byte, secret string, now time.Time) error {
	stamp := r.Header.Get("X-Amz-Date")
	date, err := time.Parse(TimeFormat, stamp)
	if err != nil {
		return fmt.Errorf("%w: X-Amz-Date %q is not in the form YYYYMMDD'T'HHMMSS'Z'", ErrMalformed, stamp)
	}
	if !strings.HasPrefix(stamp, a.Date) {
		return fmt.Errorf("%w: the date in the credential scope is not that of X-Amz-Date", ErrMalformed)
	}
	if skew := now.Sub(date); skew > MaxSkew || skew < -MaxSkew {
		return fmt.Errorf("%w: signed at %s, now %s", ErrExpired, stamp, now.UTC().Format(TimeFormat))
	}
	digest := sha256.Sum256(body)
	payload := hex.EncodeToString(digest[:])
	if declared := r.Header.Get("X-Amz-Content-Sha256"); declared != "" && declared != payload {
		return fmt.Errorf("%w: X-Amz-Content-Sha256 is not the digest of the body", ErrMismatch)
	}
	canonical := canonicalRequest(r, a.SignedHeaders, payload)
	hashed := sha256.Sum256([]byte(canonical))
	toSign := strings.Join([]string{algorithm, stamp, a.Scope(), hex.EncodeToString(hashed[:])}, "\n")
	want := hex.EncodeToString(sum(signingKey(secret, a), toSign))
	if !hmac.Equal([]byte(want), []byte(a.Signature)) {
		return ErrMismatch
	}
	return nil
}

func canonicalRequest(r *http.Request, signed []string, payload string) string {
	var b strings.Builder
	path := canonicalPath(r.URL.EscapedPath())
	b.WriteString(r.Method + "\n" + path + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range signed {
		b.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(signed, ";") + "\n" + payload)
	return b.String()
}

// canonicalPath escapes the path as it was sent once more, as all services but S3 want it.
func canonicalPath(sent string) string {
	if sent == "" {
		return "/"
	}
	segments := strings.Split(sent, "/")
	for i, s := range segments {
		segments[i] = escape(s)
	}
	return strings.Join(segments, "/")
}

// headerValue takes Host and Content-Length from the request itself, because net/http moves them
// out of the header map.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := r.Header.Values(name)
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(trimmed, ",")
}

// canonicalQuery sorts by name, then by value, and escapes a space as %20, unlike
// url.Values.Encode.
func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		for _, v := range values {
			pairs = append(pairs, escape(name)+"="+escape(v))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

func escape(s string) string {
	return strings.NewReplacer("+", "%20", "%7E", "~").Replace(url.QueryEscape(s))
}

func signingKey(secret string, a Authorization) []byte {
	key := []byte("AWS4" + secret)
	for _, part := range []string{a.Date, a.Region, a.Service, terminator} {
		key = sum(key, part)
	}
	return key
}

func sum(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
