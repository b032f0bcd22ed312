package sigv4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/nephele-io/nephele/internal/seed"
	"github.com/nephele-io/nephele/internal/sim/ec2/sigv4"
)

// TestPublishedExample checks the one example that AWS documents with all its parts.
func TestPublishedExample(t *testing.T) {
	r, err := http.NewRequest(http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "+
		"SignedHeaders=content-type;host;x-amz-date, "+
		"Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
	a, err := sigv4.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	if a.AccessKeyID != "AKIDEXAMPLE" || a.Scope() != "20150830/us-east-1/iam/aws4_request" {
		t.Errorf("parsed %+v", a)
	}
	now := time.Date(2015, 8, 30, 12, 40, 0, 0, time.UTC)
	if err := a.Verify(r, nil, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", now); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// sign has the SDK sign a request and then looks at it as a server would.
func sign(t *testing.T, rng *rand.Rand, now time.Time) (*http.Request, []byte, aws.Credentials) {
	t.Helper()
	body := fmt.Appendf(nil, "Action=A&X=%d", rng.Int())
	query := url.Values{}
	for range rng.IntN(4) {
		query.Add(fmt.Sprintf("k %d~+/é", rng.IntN(3)), fmt.Sprintf("v +%%&=~*'%d", rng.IntN(100)))
	}
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:8080/?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Amz-Sdk-Request", "attempt=1;  max=3")
	r.Header.Add("X-Multi", " one  two ")
	r.Header.Add("X-Multi", "three")
	creds := aws.Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: fmt.Sprintf("secret/%d+x", rng.Int())}
	if rng.IntN(2) == 0 {
		creds.SessionToken = "token"
	}
	digest := sha256.Sum256(body)
	err = v4.NewSigner().SignHTTP(context.Background(), creds, r, hex.EncodeToString(digest[:]), "ec2", "eu-west-1", now)
	if err != nil {
		t.Fatal(err)
	}
	return r, body, creds
}

func TestAgreesWithTheSDK(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 200 {
		r, body, creds := sign(t, rng, now)
		a, err := sigv4.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		if a.Region != "eu-west-1" || a.Service != "ec2" || a.AccessKeyID != "AKIDTEST" {
			t.Fatalf("parsed %+v", a)
		}
		if err := a.Verify(r, body, creds.SecretAccessKey, now.Add(sigv4.MaxSkew)); err != nil {
			t.Fatalf("a good signature is refused: %v (%s)", err, r.URL)
		}
		for name, check := range map[string]error{
			"other secret": a.Verify(r, body, creds.SecretAccessKey+"x", now),
			"other body":   a.Verify(r, append(body, 'x'), creds.SecretAccessKey, now),
		} {
			if !errors.Is(check, sigv4.ErrMismatch) {
				t.Fatalf("%s: %v", name, check)
			}
		}
		for _, late := range []time.Duration{sigv4.MaxSkew + time.Second, -sigv4.MaxSkew - time.Second} {
			if err := a.Verify(r, body, creds.SecretAccessKey, now.Add(late)); !errors.Is(err, sigv4.ErrExpired) {
				t.Fatalf("%s later: %v", late, err)
			}
		}
		r.Header.Set("Content-Type", "text/plain")
		if err := a.Verify(r, body, creds.SecretAccessKey, now); !errors.Is(err, sigv4.ErrMismatch) {
			t.Fatalf("changed header: %v", err)
		}
	}
}

func TestMalformed(t *testing.T) {
	good := "AWS4-HMAC-SHA256 Credential=K/20260102/r/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
	for _, c := range []struct {
		name, header string
		want         error
	}{
		{"none", "", sigv4.ErrMissing},
		{"other scheme", "Bearer x", sigv4.ErrMalformed},
		{"no space", strings.Replace(good, " ", "", 1), sigv4.ErrMalformed},
		{"short scope", strings.Replace(good, "/ec2", "", 1), sigv4.ErrMalformed},
		{"empty region", strings.Replace(good, "/r/", "//", 1), sigv4.ErrMalformed},
		{"other terminator", strings.Replace(good, "aws4_request", "aws5", 1), sigv4.ErrMalformed},
		{"host not signed", strings.Replace(good, "host;", "", 1), sigv4.ErrMalformed},
		{"no signature", strings.Replace(good, "Signature=00", "", 1), sigv4.ErrMalformed},
		{"good", good, nil},
	} {
		r := &http.Request{Header: http.Header{}, URL: &url.URL{}}
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		if _, err := sigv4.Parse(r); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	r := &http.Request{Header: http.Header{"Authorization": {good}}, URL: &url.URL{}}
	a, err := sigv4.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, date := range []string{"", "2026-01-02", "20260103T000000Z"} {
		r.Header.Set("X-Amz-Date", date)
		if err := a.Verify(r, nil, "s", time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)); !errors.Is(err, sigv4.ErrMalformed) {
			t.Errorf("date %q: %v", date, err)
		}
	}
}
