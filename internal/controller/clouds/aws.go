package clouds

import (
	"cmp"
	"context"
	"errors"
	"time"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/pace"
)

// awsAccounts makes the providers of the AWS accounts of a cluster.
type awsAccounts struct {
	cluster string
	access  Access
	// ambient is the identity of the process; nil if no account may use it.
	ambient *aws.Ambient
	// audit, if set, gets every call that changes something.
	audit aws.Auditor
	// limiter, if set, keeps the calls of all accounts below the rates of their cloud accounts.
	limiter *pace.Limiter
	// parts has the gates, and how the process calls itself.
	parts Parts
}

// newAWSAccounts finds the identity of the process if accounts may use it. Nothing is called.
func newAWSAccounts(ctx context.Context, cluster string, access Access) (*awsAccounts, error) {
	own, err := access.ambient(ctx, cluster)
	return &awsAccounts{cluster: cluster, access: access, ambient: own}, err
}

// paced keeps all accounts with credentials of the same cloud account together below its rates.
// ended, if set, gets every call.
func (a *awsAccounts) paced(ended func(pace.Event)) *awsAccounts {
	a.limiter = pace.New(pace.Options{Now: time.Now, After: time.After, Rate: aws.Documented, Ended: ended})
	return a
}

// recorded makes every call that changes something known to audit.
func (a *awsAccounts) recorded(audit aws.Auditor) *awsAccounts {
	a.audit = audit
	return a
}

// open implements accountspec.Open.
func (a *awsAccounts) open(c accountspec.Config) (cloud.Provider, error) {
	cred, err := aws.ParseCredential(c.Secret, c.SecretKey, c.SecretValue)
	if err != nil {
		return nil, err
	}
	if len(c.Regions) == 0 {
		return nil, errors.New("spec.awsConfig.region names no region")
	}
	cfg := aws.Config{
		Credential: cred, Region: c.Regions[0], Endpoint: c.Endpoint, Owner: c.Owner, Limits: LimitsOf(c.Quotas),
		UserAgent: cmp.Or(a.parts.Agent, "nephele"), Gate: a.parts.gateOf(c.Account),
		Cluster: a.cluster, Account: c.Account, Allowed: &a.access.Endpoints, Bounds: a.access.Bounds, Audit: a.audit,
	}
	if namespace, _, ok := cutAccount(c.Account); ok && a.access.lends(namespace) {
		cfg.Ambient = a.ambient
	}
	for _, q := range c.Queues {
		cfg.Queues = append(cfg.Queues, aws.Queue{URL: q.URL, Region: q.Region})
	}
	if a.limiter != nil {
		cfg.Admit = func(ctx context.Context, owner, region, action string) (func(cloud.Class), error) {
			ended := a.parts.traced(ctx, cloudv1alpha1.CloudProviderAWS, owner, region, action)
			done, err := a.limiter.Admit(ctx, pace.Key{Endpoint: c.Endpoint, Account: owner, Region: region, Action: action})
			if err != nil {
				ended(cloud.ClassOf(err))
				return nil, err
			}
			return func(class cloud.Class) { done(class); ended(class) }, nil
		}
	}
	return aws.New(cfg)
}

// LimitsOf tells the adapter the quotas of an account; nil means that they are the cloud's
// defaults.
func LimitsOf(q *cloudv1alpha1.AWSQuotas) func(region string) cloud.Limits {
	if q == nil {
		return nil
	}
	return func(string) cloud.Limits {
		return cloud.Limits{RulesPerGroup: int(q.RulesPerGroup), GroupsPerInterface: int(q.GroupsPerInterface), GroupsPerRegion: int(q.GroupsPerRegion)}
	}
}
