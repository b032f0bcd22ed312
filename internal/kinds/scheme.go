package kinds

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	upstreamv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	upstreamv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	analysisv1alpha1 "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	antreav1alpha1 "github.com/nephele-io/nephele/api/antrea/v1alpha1"
	antreav1alpha2 "github.com/nephele-io/nephele/api/antrea/v1alpha2"
	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	nephelev1alpha1 "github.com/nephele-io/nephele/api/nephele/v1alpha1"
	setv1alpha1 "github.com/nephele-io/nephele/api/set/v1alpha1"
	statsv1alpha1 "github.com/nephele-io/nephele/api/stats/v1alpha1"
)

// Scheme returns a scheme with every kind that the controller and the commands read or write, be it
// stored or answered.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme,
		antreav1alpha1.AddToScheme, antreav1alpha2.AddToScheme, antreav1beta1.AddToScheme, nephelev1alpha1.AddToScheme, setv1alpha1.AddToScheme, analysisv1alpha1.AddToScheme,
		statsv1alpha1.AddToScheme, upstreamv1alpha1.Install, upstreamv1alpha2.Install} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	return s, nil
}
