package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/preview"
)

// onlyAzure reports whether the accounts are subscriptions of Azure. A snapshot is of one cloud.
func onlyAzure(accounts []*v1alpha1.CloudProviderAccount) (bool, error) {
	n := 0
	for _, a := range accounts {
		if c, _ := accountspec.ConfigOf(a); c.Cloud == v1alpha1.CloudProviderAzure {
			n++
		}
	}
	if n > 0 && n < len(accounts) {
		return false, errors.New("--snapshot: the manifests have accounts of AWS and of Azure, and a snapshot is of one cloud: ask for one after the other")
	}
	return n > 0, nil
}

// describe reads the description of subscriptions: a file, or all .json files of a folder and
// below.
func describe(ctx context.Context, in *preview.Inputs, name string) (preview.Opener, func(), error) {
	d, err := azure.ReadDescription(name)
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot: %w", err)
	}
	open := func(_ context.Context, a *v1alpha1.CloudProviderAccount) (preview.Reader, error) {
		subscription, err := subscriptionOf(a, in.Secrets, d.Subscriptions())
		if err != nil {
			return nil, fmt.Errorf("--snapshot %s: %w", name, err)
		}
		return d.Account(subscription, a.Spec.AzureConfig.Quotas, time.Now), nil
	}
	if in.Claimants, err = claimantsOf(ctx, in.Objects.Accounts, open); err != nil {
		return nil, nil, err
	}
	return open, func() {}, nil
}

// subscriptionOf is the subscription of an account: the one that its Secret names, if that is among
// the manifests, or the one that the account is named after, or else the only one that is
// described.
func subscriptionOf(a *v1alpha1.CloudProviderAccount, secrets []*corev1.Secret, described []string) (string, error) {
	want := strings.ToLower(a.Name)
	if _, ref := accountspec.ConfigOf(a); ref != nil && slices.ContainsFunc(secrets, func(s *corev1.Secret) bool {
		return client.ObjectKeyFromObject(s) == client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	}) {
		value, err := secretValue(context.Background(), nil, secrets, *ref)
		if err != nil {
			return "", err
		}
		c, err := azure.ParseCredential(ref.Namespace+"/"+ref.Name, ref.Key, value)
		if err != nil {
			return "", err
		}
		want = strings.ToLower(c.SubscriptionID)
		if !slices.Contains(described, want) {
			return "", fmt.Errorf("it has the subscriptions %s, and the account's Secret names %s", strings.Join(described, ", "), want)
		}
	}
	switch {
	case slices.Contains(described, want):
		return want, nil
	case len(described) == 1:
		return described[0], nil
	}
	return "", fmt.Errorf("it has the subscriptions %s: name the CloudProviderAccount after one of them, or give its Secret with -f", strings.Join(described, ", "))
}

// claimantsOf are the clusters that the networks of the accounts belong to, sorted. What cannot be
// read is told when the plan is made.
func claimantsOf(ctx context.Context, accounts []*v1alpha1.CloudProviderAccount, open preview.Opener) ([]string, error) {
	var ids []string
	for _, a := range accounts {
		provider, err := open(ctx, a)
		if err != nil {
			return nil, err
		}
		config, _ := accountspec.ConfigOf(a)
		for _, region := range config.Regions {
			snap, err := provider.Observe(ctx, cloud.Scope{Account: cloud.AccountKey(a.Namespace, a.Name), Region: region})
			if err != nil {
				continue
			}
			for _, n := range snap.Networks {
				if id := n.Tags[cloud.TagClaim]; id != "" {
					ids = append(ids, id)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
