package inventory

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// mine reports whether an account is this process's.
func (i *Inventory) mine(key types.NamespacedName) bool {
	return i.opts.Mine == nil || i.opts.Mine(cloud.AccountKey(key.Namespace, key.Name))
}

// drop forgets what is known of an account, and leaves its objects alone.
func (i *Inventory) drop(key types.NamespacedName) {
	i.mu.Lock()
	name := cloud.AccountKey(key.Namespace, key.Name)
	a, known := i.accounts[name]
	delete(i.accounts, name)
	i.mu.Unlock()
	if known {
		a.mu.Lock()
		a.feed.end()
		a.mu.Unlock()
		i.notify(key)
	}
}

// Divide is to be called after Mine answers otherwise than before. What is not this process's any
// more is dropped before it returns, except that a pass on its way ends by itself without writing.
// What has become this process's is read soon: accounts, and those that are gone whose objects or
// selectors are left.
func (i *Inventory) Divide(ctx context.Context) error {
	for _, key := range i.keys() {
		if !i.mine(key) {
			i.drop(key)
		}
	}
	var accounts v1alpha1.CloudProviderAccountList
	var selectors v1alpha1.CloudEntitySelectorList
	var vms v1alpha1.VirtualMachineList
	for _, err := range []error{i.opts.Client.List(ctx, &accounts), i.opts.Client.List(ctx, &selectors), i.opts.Client.List(ctx, &vms)} {
		if err != nil {
			return fmt.Errorf("find the accounts that have become this replica's: %w", err)
		}
	}
	known := map[types.NamespacedName]bool{}
	for n := range accounts.Items {
		known[types.NamespacedName{Namespace: accounts.Items[n].Namespace, Name: accounts.Items[n].Name}] = true
	}
	for n := range selectors.Items {
		known[accountOfSelector(ctx, &selectors.Items[n])[0]] = true
	}
	for n := range vms.Items {
		for _, key := range markedBy(&vms.Items[n]) {
			known[key] = true
		}
	}
	for key := range known {
		if i.mine(key) && i.lookup(cloud.AccountKey(key.Namespace, key.Name)) == nil {
			i.enqueue(key)
		}
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: processes that divide the accounts
// work beside one another.
func (i *Inventory) NeedLeaderElection() bool { return i.opts.Mine == nil }
