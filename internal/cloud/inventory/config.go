package inventory

import (
	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// ConfigOf returns what an account says of its cloud, without the Secret's value, and the reference
// to the Secret, nil if there is none. Cloud is empty if it says nothing.
func ConfigOf(cpa *v1alpha1.CloudProviderAccount) (AccountConfig, *v1alpha1.SecretReference) {
	c := AccountConfig{Account: cloud.AccountKey(cpa.Namespace, cpa.Name), Owner: cpa.Status.CloudAccountID}
	switch spec := cpa.Spec; {
	case spec.AWSConfig != nil:
		c.Cloud, c.Regions, c.Endpoint = v1alpha1.CloudProviderAWS, spec.AWSConfig.Region, spec.AWSConfig.Endpoint
		c.Queues, c.Quotas = spec.AWSConfig.EventQueue, spec.AWSConfig.Quotas
	case spec.AzureConfig != nil:
		c.Cloud, c.Regions = v1alpha1.CloudProviderAzure, spec.AzureConfig.Region
		c.Place, c.AzureQuotas = spec.AzureConfig.Cloud, spec.AzureConfig.Quotas
		c.FormerGroups = cpa.Annotations[v1alpha1.AnnotationFormerGroups]
	}
	ref := secretRefOf(cpa)
	if ref != nil {
		c.Secret, c.SecretKey = ref.Namespace+"/"+ref.Name, ref.Key
	}
	return c, ref
}
