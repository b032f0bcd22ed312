package agentcmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nephele-io/nephele/internal/enroll/credential"
	"github.com/nephele-io/nephele/internal/enroll/identity"
)

// mostSigned bounds what is read of each answer of the metadata service, in bytes; metadataLimit
// how long they may take.
const (
	mostSigned    = 16 << 10
	metadataLimit = 10 * time.Second
)

// Where AWS opens a session of version 2, and what it reports this machine then.
const (
	sessionURL  = "http://169.254.169.254/latest/api/token"
	instanceURL = "http://169.254.169.254/latest/dynamic/instance-identity/"
)

// signedByAWS asks version 2 of AWS's metadata service for the identity of this machine.
func signedByAWS(ctx context.Context) (out identity.Proof, err error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	session, err := askMetadata(ctx, http.MethodPut, sessionURL, "X-aws-ec2-metadata-token-ttl-seconds", "60")
	if err != nil {
		return out, fmt.Errorf("open a session with the metadata service: %w", err)
	}
	for _, part := range []struct {
		name string
		into *string
	}{{"rsa2048", &out.PKCS7}, {"document", &out.Document}, {"signature", &out.Signature}} {
		text, err := askMetadata(ctx, http.MethodGet, instanceURL+part.name, "X-aws-ec2-metadata-token", string(session))
		if err != nil {
			return out, fmt.Errorf("ask the metadata service for the %s of this VM: %w", part.name, err)
		}
		*part.into = string(text)
	}
	return out, nil
}

// attestedURL is where Azure attests what it knows of this machine.
const attestedURL = "http://169.254.169.254/metadata/attested/document?api-version=2021-02-01&nonce="

// attestedByAzure asks Azure's metadata service for the identity of this machine, for one use.
func attestedByAzure(ctx context.Context, nonce string) (identity.Proof, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	text, err := askMetadata(ctx, http.MethodGet, attestedURL+nonce, "Metadata", "true")
	if err != nil {
		return identity.Proof{}, fmt.Errorf("ask the metadata service to attest this VM: %w", err)
	}
	var said struct{ Encoding, Signature string }
	if err := json.Unmarshal(text, &said); err != nil || said.Encoding != "pkcs7" || said.Signature == "" {
		return identity.Proof{}, errors.New("ask the metadata service to attest this VM: its answer is no signature of the encoding pkcs7, of 16 KiB at most")
	}
	return identity.Proof{Attested: said.Signature}, nil
}

// askMetadata sends a request to the metadata service, with a header. It is in the host, behind no
// proxy, and no one else answers for it. credential.ErrNotYet is wrapped by errors of a service
// that may answer later.
func askMetadata(ctx context.Context, method, url, header, value string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(header, value)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostSigned))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	switch code := answer.StatusCode; {
	case code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return nil, fmt.Errorf("%w: it answers %s", credential.ErrNotYet, answer.Status)
	case code != http.StatusOK:
		return nil, fmt.Errorf("it answers %s: %.200s", answer.Status, text)
	}
	return text, nil
}
