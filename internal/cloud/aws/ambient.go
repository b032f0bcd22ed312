package aws

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// containerHost is where a container finds its credentials when only a relative URI is given.
const containerHost = "http://169.254.170.2"

// AmbientCredentials returns the identity of the process, found when it is first asked for: the keys in the environment, a web
// identity token (as EKS mounts it), the credentials endpoint of the container, or the profile of the EC2 instance. base is the
// configuration to call STS with.
func AmbientCredentials(base awssdk.Config) awssdk.CredentialsProvider {
	return awssdk.CredentialsProviderFunc(func(ctx context.Context) (awssdk.Credentials, error) {
		p, err := ambient(base, os.Getenv)
		if err != nil {
			return awssdk.Credentials{}, err
		}
		return p.Retrieve(ctx)
	})
}

func ambient(base awssdk.Config, env func(string) string) (awssdk.CredentialsProvider, error) {
	if key, secret := env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"); key != "" && secret != "" {
		return credentials.NewStaticCredentialsProvider(key, secret, env("AWS_SESSION_TOKEN")), nil
	}
	if file, role := env("AWS_WEB_IDENTITY_TOKEN_FILE"), env("AWS_ROLE_ARN"); file != "" && role != "" {
		base.Credentials = awssdk.AnonymousCredentials{}
		return stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(base), role, stscreds.IdentityTokenFile(file),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = "nephele" }), nil
	}
	endpoint := env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		endpoint = containerHost + relative
	}
	if endpoint == "" {
		p, err := newInstanceProfile(env)
		if err != nil {
			return nil, fmt.Errorf("the Secret has no keys and the process has no identity of its own: neither AWS_ACCESS_KEY_ID and "+
				"AWS_SECRET_ACCESS_KEY, AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, nor AWS_CONTAINER_CREDENTIALS_*_URI is set, and %w", err)
		}
		return p, nil
	}
	if err := checkContainerEndpoint(endpoint); err != nil {
		return nil, err
	}
	return endpointcreds.New(endpoint, func(o *endpointcreds.Options) {
		o.HTTPClient = base.HTTPClient
		if file := env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				token, err := os.ReadFile(file)
				return string(token), err
			})
		} else {
			o.AuthorizationToken = env("AWS_CONTAINER_AUTHORIZATION_TOKEN")
		}
	}), nil
}

// checkContainerEndpoint refuses to send the authorization token in the clear to a host that is not this one or the platform's.
func checkContainerEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return fmt.Errorf("container credentials endpoint %q is not a URL", endpoint)
	}
	if u.Scheme == "https" {
		return nil
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() == "localhost" || (ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast())) || u.Hostname() == "fd00:ec2::23" {
		return nil
	}
	return fmt.Errorf("container credentials endpoint %q is neither https nor on this host", endpoint)
}
