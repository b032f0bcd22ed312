package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nephele-io/nephele/internal/cloud"
)

const (
	// metadataHost is where an instance finds its own data.
	metadataHost = "http://169.254.169.254"
	// metadataTimeout bounds one request: outside of the cloud nobody answers, and that should be known soon.
	metadataTimeout = 2 * time.Second
	// metadataBody bounds an answer.
	metadataBody = 64 << 10
	// metadataToken is how long a session with the metadata service lasts, in seconds; ours needs a few requests.
	metadataToken = "60"
)

// instanceProfile takes the credentials of the instance's profile from its metadata service, in version 2 of the protocol only: the
// older one answers anybody who can make this process send a request.
type instanceProfile struct {
	client   *http.Client
	endpoint string
}

// newInstanceProfile heeds the variables that other programs heed.
func newInstanceProfile(env func(string) string) (*instanceProfile, error) {
	if strings.EqualFold(env("AWS_EC2_METADATA_DISABLED"), "true") {
		return nil, errors.New("the metadata service of the instance is switched off by AWS_EC2_METADATA_DISABLED")
	}
	endpoint := strings.TrimSuffix(env("AWS_EC2_METADATA_SERVICE_ENDPOINT"), "/")
	if endpoint == "" {
		endpoint = metadataHost
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("AWS_EC2_METADATA_SERVICE_ENDPOINT %q is not an http or https URL with a host", endpoint)
	}
	// No proxy: what the service says is about this machine, and secret.
	return &instanceProfile{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, endpoint: endpoint}, nil
}

// Retrieve implements the SDK's CredentialsProvider.
func (p *instanceProfile) Retrieve(ctx context.Context) (awssdk.Credentials, error) {
	const path = "/latest/meta-data/iam/security-credentials/"
	token, err := p.ask(ctx, http.MethodPut, "/latest/api/token", http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {metadataToken}})
	if err != nil {
		return awssdk.Credentials{}, err
	}
	session := http.Header{"X-Aws-Ec2-Metadata-Token": {token}}
	roles, err := p.ask(ctx, http.MethodGet, path, session)
	if err != nil {
		return awssdk.Credentials{}, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(roles), "\n")
	if role == "" {
		return awssdk.Credentials{}, errors.New("the instance has no profile with a role")
	}
	body, err := p.ask(ctx, http.MethodGet, path+url.PathEscape(role), session)
	if err != nil {
		return awssdk.Credentials{}, err
	}
	var got struct {
		Code, Message, AccessKeyID, SecretAccessKey, Token string
		Expiration                                         time.Time
	}
	if json.Unmarshal([]byte(body), &got) != nil || got.AccessKeyID == "" || got.SecretAccessKey == "" {
		return awssdk.Credentials{}, fmt.Errorf("the metadata service gives no credentials for role %s: %s %s", cloud.Words(role), cloud.Words(got.Code), cloud.Words(got.Message))
	}
	return awssdk.Credentials{
		AccessKeyID: got.AccessKeyID, SecretAccessKey: got.SecretAccessKey, SessionToken: got.Token, Source: "EC2 instance profile",
		CanExpire: !got.Expiration.IsZero(), Expires: got.Expiration,
	}, nil
}

// ask makes one request of the metadata service. Errors never carry an answer: it may be a secret.
func (p *instanceProfile) ask(ctx context.Context, method, path string, header http.Header) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.endpoint+path, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("metadata service of the instance: %w", err)
	}
	req.Header = header
	resp, err := p.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("metadata service of the instance: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, metadataBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return "", fmt.Errorf("metadata service of the instance: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("metadata service of the instance: %s %s: %s", method, path, resp.Status)
	}
	return string(body), nil
}
