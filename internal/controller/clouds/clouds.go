package clouds

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/aws/lower"
	azurelower "github.com/nephele-io/nephele/internal/cloud/azure/lower"
	"github.com/nephele-io/nephele/internal/cloud/pace"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/platform/egress"
	"github.com/nephele-io/nephele/internal/platform/tracing"
)

// Table lists the clouds that are supported: one row each, and nothing else of the wiring knows
// which there are. Every call makes new metrics.
func Table() []Cloud {
	onAWS, onAzure := newCallMetrics(cloudv1.CloudProviderAWS), newCallMetrics(cloudv1.CloudProviderAzure)
	return []Cloud{
		{Kind: cloudv1.CloudProviderAWS, Lowerer: lower.AWS{}, Open: openAWS, Pace: onAWS.ended, Metrics: onAWS, ExternalID: aws.ExternalID},
		{Kind: cloudv1.CloudProviderAzure, Lowerer: azurelower.Azure{}, Open: openAzure, Pace: onAzure.ended, Metrics: onAzure},
	}
}

// Cloud is one row of the table.
type Cloud struct {
	// Kind is how accounts name it.
	Kind cloudv1.CloudProvider
	// Lowerer makes its rules of what policies allow.
	Lowerer plan.Lowerer
	// Open finds what its accounts are opened with, as the identity of the process. Nothing is
	// called.
	Open func(ctx context.Context, p Parts) (accountspec.Open, error)
	// Pace gets every call that was paced; nil if calls are not counted.
	Pace func(pace.Event)
	// Metrics are what its calls count; nil if nothing is.
	Metrics prometheus.Collector
	// ExternalID is the id with which the role of an account, "namespace/name", is assumed; nil if
	// there are no such ids.
	ExternalID func(cluster, account string) string
}

// Parts are what accounts are opened with.
type Parts struct {
	// Cluster is the id under which we own objects.
	Cluster string
	Access  Access
	// Audit gets every call that changes something; it may be nil.
	Audit Auditor
	// Paced keeps calls below the rates of the cloud, all accounts together. Called gets each call.
	Paced  bool
	Called func(pace.Event)
	// Gate is that of an account, which every request passes; nil if there is none.
	Gate func(account string) egress.Gate
	// Tracer makes spans of calls; nil makes none.
	Tracer *tracing.Tracer
	// Agent is how this process calls itself; empty for what the adapters say.
	Agent string
}

// gateOf is the gate of an account.
func (p Parts) gateOf(account string) egress.Gate {
	if p.Gate == nil {
		return nil
	}
	return p.Gate(account)
}

// Auditor keeps the record of changes, as the adapters want it.
type Auditor interface {
	Begin(cloud.Call) (end func(cloud.Outcome))
}

// Of returns the row of a cloud; false if it is not supported.
func Of(kind cloudv1.CloudProvider) (Cloud, bool) {
	for _, c := range Table() {
		if c.Kind == kind {
			return c, true
		}
	}
	return Cloud{}, false
}

// LowererOf returns what makes the rules of a cloud; false if it is not supported.
func LowererOf(kind cloudv1.CloudProvider) (plan.Lowerer, bool) {
	c, supported := Of(kind)
	return c.Lowerer, supported
}

// openClouds opens all clouds of a table for the inventory.
func Open(ctx context.Context, table []Cloud, p Parts) (map[cloudv1.CloudProvider]accountspec.Open, error) {
	out := map[cloudv1.CloudProvider]accountspec.Open{}
	for _, c := range table {
		p.Called = c.Pace
		open, err := c.Open(ctx, p)
		if err != nil {
			return nil, err
		}
		out[c.Kind] = open
	}
	return out, nil
}

// externalIDs returns the external id of an account's role by the table.
func ExternalIDs(table []Cloud, cluster string) func(accountspec.Config) string {
	return func(config accountspec.Config) string {
		for _, c := range table {
			if c.Kind == config.Cloud && c.ExternalID != nil {
				return c.ExternalID(cluster, config.Account)
			}
		}
		return ""
	}
}

// openAWS implements Cloud.Open.
func openAWS(ctx context.Context, p Parts) (accountspec.Open, error) {
	accounts, err := newAWSAccounts(ctx, p.Cluster, p.Access)
	if err != nil {
		return nil, err
	}
	if p.Paced {
		accounts.paced(p.Called)
	}
	if p.Audit != nil {
		accounts.recorded(p.Audit)
	}
	accounts.parts = p
	return accounts.open, nil
}

// cutAccount splits "namespace/name".
func cutAccount(key string) (namespace, name string, ok bool) { return strings.Cut(key, "/") }
