package clouds

import (
	"context"
	"errors"
	"time"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	azurerole "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	"github.com/nephele-io/nephele/internal/cloud/pace"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// openAzure implements Cloud.Open.
func openAzure(_ context.Context, p Parts) (accountspec.Open, error) {
	var own *azure.Ambient
	if len(p.Access.AmbientNamespaces) > 0 {
		own = azure.LoadAmbient(nil)
	}
	needed, err := rights.Actions(azurerole.Role())
	if err != nil {
		return nil, err
	}
	var limiter *pace.Limiter
	if p.Paced {
		limiter = pace.New(pace.Options{Now: time.Now, After: time.After, Rate: azure.Documented, Ended: p.Called})
	}
	return func(c accountspec.Config) (cloud.Provider, error) {
		cred, err := azure.ParseCredential(c.Secret, c.SecretKey, c.SecretValue)
		if err != nil {
			return nil, err
		}
		if len(c.Regions) == 0 {
			return nil, errors.New("spec.azureConfig.region names no region")
		}
		confirmed, _ := plan.ParseConfirmed(c.FormerGroups) // what is wrong with it the realizer says
		cfg := azure.Config{
			Credential: cred, Account: c.Account, Cluster: p.Cluster, Cloud: c.Place, Allowed: &p.Access.Endpoints, Bounds: p.Access.Bounds,
			Gate: p.gateOf(c.Account), Rights: needed, Quotas: c.AzureQuotas, Former: confirmed,
		}
		if p.Audit != nil {
			cfg.Audit = p.Audit
		}
		if namespace, _, ok := cutAccount(c.Account); ok && p.Access.lends(namespace) {
			cfg.Ambient = own
		}
		if limiter != nil {
			admit := AdmitAzure(limiter, c.Place)
			cfg.Admit = func(ctx context.Context, call azure.Call) (func(cloud.Class, time.Duration), error) {
				ended := p.traced(ctx, cloudv1.CloudProviderAzure, call.Subscription, call.Region, call.Action)
				done, err := admit(ctx, call)
				if err != nil {
					ended(cloud.ClassOf(err))
					return nil, err
				}
				return func(class cloud.Class, wait time.Duration) { done(class, wait); ended(class) }, nil
			}
		}
		return azure.New(cfg)
	}, nil
}

// AdmitAzure lets the calls of an account through as its buckets allow. The same subscription at
// another place is another one.
func AdmitAzure(l *pace.Limiter, place *cloudv1.AzureCloud) func(context.Context, azure.Call) (func(cloud.Class, time.Duration), error) {
	endpoint := ""
	if place != nil {
		endpoint = place.ResourceManager
	}
	return func(ctx context.Context, c azure.Call) (func(cloud.Class, time.Duration), error) {
		buckets := c.Buckets(endpoint)
		done, err := l.Admit(ctx, pace.Key{Endpoint: endpoint, Account: c.Subscription, Region: c.Region, Action: c.Action}, buckets...)
		if err != nil {
			return nil, err
		}
		return func(class cloud.Class, wait time.Duration) {
			l.Pause(wait, buckets...)
			done(class)
		}, nil
	}
}
