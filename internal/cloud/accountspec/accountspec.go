// Package accountspec reads the spec of a CloudProviderAccount: how to reach its cloud (Config),
// its settings of enforcement (Settings), and the defaults of both.
//
// It is pure, and knows neither the cloud nor the API server. Concurrency: all functions may be
// called from any goroutine; what they return shares memory with the account and is not to be
// changed.
package accountspec

import (
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Config is what the provider of an account is made of.
type Config struct {
	// Account is "namespace/name" of the CloudProviderAccount.
	Account string
	// Owner is the cloud's own number of the account as it was first read; empty before.
	Owner    string `json:"-"`
	Cloud    v1alpha1.CloudProvider
	Regions  []string
	Endpoint string
	// Place says where an Azure subscription is, if that is not the public cloud.
	Place *v1alpha1.AzureCloud
	// Queues are the queues with events about the account.
	Queues []v1alpha1.AWSEventQueue
	// Quotas are the limits of the account as far as they are not the cloud's defaults; nil means
	// none is.
	Quotas *v1alpha1.AWSQuotas
	// AzureQuotas are the quotas of an Azure subscription.
	AzureQuotas *v1alpha1.AzureQuotas
	// FormerGroups is the annotation v1alpha1.AnnotationFormerGroups of an Azure account: what it
	// names is to be read.
	FormerGroups string
	// Secret is "namespace/name" of the Secret, SecretKey the key in its data and SecretValue what
	// that holds.
	Secret      string
	SecretKey   string
	SecretValue []byte
}

// Open makes the provider of an account. It must not call the cloud. Its error says what is wrong
// with the configuration or the Secret, for people, without repeating a secret value.
type Open func(Config) (cloud.Provider, error)

// ConfigOf returns what an account says of its cloud, without the Secret's value, and the reference
// to the Secret, nil if there is none. Cloud is empty if it says nothing.
func ConfigOf(cpa *v1alpha1.CloudProviderAccount) (Config, *v1alpha1.SecretReference) {
	c := Config{Account: cloud.AccountKey(cpa.Namespace, cpa.Name), Owner: cpa.Status.CloudAccountID}
	switch spec := cpa.Spec; {
	case spec.AWSConfig != nil:
		c.Cloud, c.Regions, c.Endpoint = v1alpha1.CloudProviderAWS, spec.AWSConfig.Region, spec.AWSConfig.Endpoint
		c.Queues, c.Quotas = spec.AWSConfig.EventQueue, spec.AWSConfig.Quotas
	case spec.AzureConfig != nil:
		c.Cloud, c.Regions = v1alpha1.CloudProviderAzure, spec.AzureConfig.Region
		c.Place, c.AzureQuotas = spec.AzureConfig.Cloud, spec.AzureConfig.Quotas
		c.FormerGroups = cpa.Annotations[v1alpha1.AnnotationFormerGroups]
	}
	ref := SecretRefOf(cpa)
	if ref != nil {
		c.Secret, c.SecretKey = ref.Namespace+"/"+ref.Name, ref.Key
	}
	return c, ref
}

// SecretRefOf is the reference of an account to its Secret; nil if it has none.
func SecretRefOf(cpa *v1alpha1.CloudProviderAccount) *v1alpha1.SecretReference {
	switch {
	case cpa.Spec.AWSConfig != nil:
		return cpa.Spec.AWSConfig.SecretRef
	case cpa.Spec.AzureConfig != nil:
		return cpa.Spec.AzureConfig.SecretRef
	}
	return nil
}
