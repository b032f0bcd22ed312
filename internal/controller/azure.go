package controller

import (
	"context"
	"errors"

	azurerole "github.com/nephele-io/nephele/config/azure"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/rights"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
)

// openAzure implements Cloud.Open.
func openAzure(_ context.Context, p CloudParts) (inventory.Open, error) {
	var own *azure.Ambient
	if len(p.Access.AmbientNamespaces) > 0 {
		own = azure.LoadAmbient(nil)
	}
	needed, err := rights.Actions(azurerole.Role())
	if err != nil {
		return nil, err
	}
	return func(c inventory.AccountConfig) (cloud.Provider, error) {
		cred, err := azure.ParseCredential(c.Secret, c.SecretKey, c.SecretValue)
		if err != nil {
			return nil, err
		}
		if len(c.Regions) == 0 {
			return nil, errors.New("spec.azureConfig.region names no region")
		}
		cfg := azure.Config{
			Credential: cred, Account: c.Account, Cluster: p.Cluster, Cloud: c.Place, Allowed: &p.Access.Endpoints, Bounds: p.Access.Bounds, Rights: needed,
		}
		if p.Audit != nil {
			cfg.Audit = p.Audit
		}
		if namespace, _, ok := cutAccount(c.Account); ok && p.Access.lends(namespace) {
			cfg.Ambient = own
		}
		return azure.New(cfg)
	}, nil
}
