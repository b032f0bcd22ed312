package cli

import (
	"context"
	"errors"
	"time"

	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/pace"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
)

// openAWS makes the provider of an AWS account that calls at its own pace.
func openAWS(c inventory.AccountConfig) (cloud.Provider, error) { return newAWS(c, nil, nil) }

// pacedAWS makes providers of AWS accounts that keep together below the rates of their cloud accounts. ended, if set, is told of every
// call, and audit of those that change something.
func pacedAWS(ended func(pace.Event), audit aws.Auditor) inventory.Open {
	limiter := pace.New(pace.Options{Now: time.Now, After: time.After, Ended: ended})
	return func(c inventory.AccountConfig) (cloud.Provider, error) { return newAWS(c, limiter, audit) }
}

func newAWS(c inventory.AccountConfig, limiter *pace.Limiter, audit aws.Auditor) (cloud.Provider, error) {
	cred, err := aws.ParseCredential(c.Secret, c.SecretKey, c.SecretValue)
	if err != nil {
		return nil, err
	}
	if len(c.Regions) == 0 {
		return nil, errors.New("spec.awsConfig.region names no region")
	}
	cfg := aws.Config{Credential: cred, Region: c.Regions[0], Endpoint: c.Endpoint, Owner: c.Owner, Limits: limitsOf(c.Quotas), UserAgent: "nephele", Audit: audit}
	for _, q := range c.Queues {
		cfg.Queues = append(cfg.Queues, aws.Queue{URL: q.URL, Region: q.Region})
	}
	if limiter != nil {
		cfg.Admit = func(ctx context.Context, owner, region, action string) (func(cloud.Class), error) {
			return limiter.Admit(ctx, pace.Key{Endpoint: c.Endpoint, Account: owner, Region: region, Action: action})
		}
	}
	return aws.New(cfg)
}

// limitsOf tells the adapter the quotas of an account; nil means that they are the cloud's defaults.
func limitsOf(q *cloudv1alpha1.AWSQuotas) func(region string) cloud.Limits {
	if q == nil {
		return nil
	}
	return func(string) cloud.Limits {
		return cloud.Limits{RulesPerGroup: int(q.RulesPerGroup), GroupsPerInterface: int(q.GroupsPerInterface), GroupsPerRegion: int(q.GroupsPerRegion)}
	}
}
