package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/nephele-io/nephele/internal/cloud"
)

// defaultRegion is where the process proves its own identity if its environment names no region.
const defaultRegion = "us-east-1"

// Ambient is the identity of the process, and the endpoints that its environment names. It is
// immutable; many providers may share it.
type Ambient struct{ awssdk.Config }

// LoadAmbient finds the identity of the process as the SDK does: keys in the environment, a web
// identity token, shared configuration files, the endpoint of the container, the profile of the EC2
// instance (by version 2 of the metadata service only). Nothing in it depends on an account.
// cluster goes into the name of a session.
func LoadAmbient(ctx context.Context, cluster string) (*Ambient, error) {
	env, err := config.NewEnvConfig()
	if err != nil {
		return nil, fmt.Errorf("find the identity of the process: %w", err)
	}
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(attemptTimeout)),
		config.WithDefaultRegion(defaultRegion),
		config.WithWebIdentityRoleCredentialOptions(func(o *stscreds.WebIdentityRoleOptions) {
			if o.RoleSessionName == "" {
				o.RoleSessionName = "nephele-" + short(cluster)
			}
		}),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) {
			// The older version answers any caller that can make this process send a request.
			o.Client = imds.New(imds.Options{
				EnableFallback: awssdk.FalseTernary, ClientEnableState: env.EC2IMDSClientEnableState,
				Endpoint: env.EC2IMDSEndpoint, EndpointMode: env.EC2IMDSEndpointMode,
			})
		}))
	if err != nil {
		return nil, fmt.Errorf("find the identity of the process: %w", err)
	}
	return &Ambient{cfg}, nil
}

// ExternalID is the external id with which the role of an account ("namespace/name") is assumed
// with the identity of the process. No one can choose it: a role that demands it serves this
// account of this cluster and no other.
func ExternalID(cluster, account string) string {
	sum := sha256.Sum256([]byte("external id\n" + cluster + "\n" + account))
	return "nephele-" + hex.EncodeToString(sum[:16])
}

// sessionLength is how long the name of a session may be.
const sessionLength = 64

// SessionName names the sessions of the role of an account ("namespace/name"), which is how they
// show in the cloud's own records. It is always the same for an account, for we know our own calls
// by it. One that is cut ends in a hash, behind a sign that no name contains.
func SessionName(cluster, account string) string {
	if cluster == "" && account == "" {
		return "nephele"
	}
	name := "nephele-" + short(cluster) + "-" + strings.Replace(account, "/", "-", 1)
	if len(name) <= sessionLength {
		return name
	}
	sum := sha256.Sum256([]byte("session\n" + cluster + "\n" + account))
	end := "=" + hex.EncodeToString(sum[:4])
	return name[:sessionLength-len(end)] + end
}

// short is the beginning of the cluster's id, as far as sessions may have it in their names.
func short(cluster string) string {
	legal := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("+=,.@_-", r) {
			return r
		}
		return '_'
	}, cluster)
	return legal[:min(8, len(legal))]
}

// checkIdentity refuses an account that would be served with the identity of the process and must
// not be, before anything is called.
func checkIdentity(cfg Config) error {
	if cfg.Credential.AccessKeyID != "" || cfg.Credential.RoleArn == "" {
		return nil
	}
	namespace, _, _ := strings.Cut(cfg.Account, "/")
	switch {
	case cfg.Endpoint != "":
		return &cloud.NotGrantedError{Message: fmt.Sprintf("the role would be assumed with the controller's own identity, which is never shown to a configured endpoint: "+
			"remove the endpoint %s, or put accessKeyId and accessKeySecret into the Secret", cfg.Endpoint)}
	case cfg.Ambient == nil:
		return &cloud.NotGrantedError{Message: fmt.Sprintf("the role would be assumed with the controller's own identity, which the namespace %s may not use: "+
			"put accessKeyId and accessKeySecret into the Secret, or have the controller started with --ambient-identity-namespaces %[1]s", namespace)}
	case cfg.Credential.ExternalID != "":
		return fmt.Errorf("the Secret sets externalId, which cannot be chosen for a role that is assumed with the controller's own identity: "+
			"remove it and let the role demand %s, which status.externalId of the account shows", ExternalID(cfg.Cluster, cfg.Account))
	}
	return nil
}
