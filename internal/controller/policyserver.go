package controller

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/nephele-io/nephele/internal/controller/policyserver"
)

// watchPolicyServer makes accounts and policies show whether the Antrea Controller in our place is
// there.
func watchPolicyServer(mgr manager.Manager, o Options, policies *policyClient) error {
	w := &policyserver.Watch{Client: mgr.GetClient(), Events: mgr.GetEventRecorder("nephele-enforcer"), Clock: clock.RealClock{}, Log: o.Log.WithName("policy-server"),
		Policies: func() (client.Client, error) {
			cfg, err := o.Antrea()
			if err != nil {
				return nil, err
			}
			return client.New(cfg, client.Options{Scheme: mgr.GetScheme()})
		}}
	policies.follower.Told = w.Mirror
	if err := mgr.Add(w); err != nil {
		return fmt.Errorf("watch the policy server: %w", err)
	}
	return nil
}

// forgetPolicyServer removes what watchPolicyServer wrote into accounts when policies were computed
// elsewhere.
func forgetPolicyServer(mgr manager.Manager) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		return policyserver.Forget(ctx, mgr.GetClient(), mgr.GetLogger())
	}))
}
