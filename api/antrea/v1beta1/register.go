package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the policy kinds, and of what controller and agents tell about
// themselves.
const GroupName = "crd.antrea.io"

// GroupVersion returns the group and version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv,
		&NetworkPolicy{}, &NetworkPolicyList{},
		&ClusterNetworkPolicy{}, &ClusterNetworkPolicyList{},
		&Tier{}, &TierList{},
		&ClusterGroup{}, &ClusterGroupList{},
		&Group{}, &GroupList{},
		&AntreaControllerInfo{}, &AntreaControllerInfoList{},
		&AntreaAgentInfo{}, &AntreaAgentInfoList{},
		&Traceflow{}, &TraceflowList{},
		&Egress{}, &EgressList{},
		&ExternalIPPool{}, &ExternalIPPoolList{},
	)
	metav1.AddToGroupVersion(s, gv)
	return nil
}
