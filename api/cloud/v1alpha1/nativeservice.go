package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NativeServiceKind says what a native service is.
// +kubebuilder:validation:Enum=RDSInstance;RDSCluster;ElastiCacheCluster;ElastiCacheReplicationGroup;ApplicationLoadBalancer;NetworkLoadBalancer;GatewayLoadBalancer;VPCEndpoint;EFSFileSystem;LambdaFunction;PrivateEndpoint;LoadBalancer;ApplicationGateway;ServiceTag
type NativeServiceKind string

// The kinds of native services.
const (
	// NativeServiceRDSInstance is a database instance of RDS, those of Aurora clusters included.
	NativeServiceRDSInstance NativeServiceKind = "RDSInstance"
	// NativeServiceRDSCluster is an Aurora or Multi-AZ cluster of RDS: all of its instances, which
	// share its security groups.
	NativeServiceRDSCluster NativeServiceKind = "RDSCluster"
	// NativeServiceElastiCacheCluster is a cache cluster of ElastiCache: one member of a
	// replication group.
	NativeServiceElastiCacheCluster NativeServiceKind = "ElastiCacheCluster"
	// NativeServiceElastiCacheReplicationGroup is a replication group of ElastiCache: all of its
	// members, which share its security groups.
	NativeServiceElastiCacheReplicationGroup NativeServiceKind = "ElastiCacheReplicationGroup"
	NativeServiceApplicationLoadBalancer     NativeServiceKind = "ApplicationLoadBalancer"
	NativeServiceNetworkLoadBalancer         NativeServiceKind = "NetworkLoadBalancer"
	NativeServiceGatewayLoadBalancer         NativeServiceKind = "GatewayLoadBalancer"
	// NativeServiceVPCEndpoint is an interface endpoint of a VPC.
	NativeServiceVPCEndpoint NativeServiceKind = "VPCEndpoint"
	// NativeServiceEFSFileSystem is a file system of EFS with its mount targets.
	NativeServiceEFSFileSystem NativeServiceKind = "EFSFileSystem"
	// NativeServiceLambdaFunction is a function of Lambda that is attached to a VPC.
	NativeServiceLambdaFunction NativeServiceKind = "LambdaFunction"
	// NativeServicePrivateEndpoint is a private endpoint of Azure, by which a database, storage or
	// another service is reached from a virtual network.
	NativeServicePrivateEndpoint NativeServiceKind = "PrivateEndpoint"
	// NativeServiceLoadBalancer is a load balancer of Azure, internal or public.
	NativeServiceLoadBalancer NativeServiceKind = "LoadBalancer"
	// NativeServiceApplicationGateway is an application gateway of Azure.
	NativeServiceApplicationGateway NativeServiceKind = "ApplicationGateway"
	// NativeServiceServiceTag is a service tag of Azure: a list of addresses, for example
	// Sql.WestEurope, which becomes a Group. Only a selector that names it selects it.
	NativeServiceServiceTag NativeServiceKind = "ServiceTag"
)

// NativeServiceSelector selects native services. What is set narrows; at least one of kind,
// vpcMatch, serviceMatch and tagMatch is.
// +kubebuilder:validation:XValidation:rule="has(self.kind) || has(self.vpcMatch) || (has(self.serviceMatch) && size(self.serviceMatch) > 0) || (has(self.tagMatch) && size(self.tagMatch) > 0)",message="one of kind, vpcMatch, serviceMatch and tagMatch must be set"
type NativeServiceSelector struct {
	// Kind selects the native services of one kind.
	// +optional
	Kind NativeServiceKind `json:"kind,omitempty"`
	// VpcMatch selects the native services of one VPC.
	// +optional
	VpcMatch *EntityMatch `json:"vpcMatch,omitempty"`
	// ServiceMatch selects the native services that any of the entries matches. None means all. The
	// id is status.cloudId of a CloudNativeService, on AWS an ARN.
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	// +optional
	ServiceMatch []EntityMatch `json:"serviceMatch,omitempty"`
	// TagMatch selects the native services that all of the entries match. None means all.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=key
	// +optional
	TagMatch []TagMatch `json:"tagMatch,omitempty"`
}

// NativeServicePort is a port that a native service listens at.
type NativeServicePort struct {
	// Name by which policies may name the port, for example postgres.
	Name string `json:"name"`
	// Protocol is TCP or UDP.
	Protocol string `json:"protocol"`
	// Port is the number.
	Port int32 `json:"port"`
}

// CloudNativeServiceStatus is what is known of the native service.
type CloudNativeServiceStatus struct {
	ImportedStatus `json:",inline"`

	// Kind says what it is.
	Kind NativeServiceKind `json:"kind,omitempty"`
	// NetworkInterfaces are those that the cloud has made for it.
	// +listType=atomic
	// +optional
	NetworkInterfaces []AttachedInterface `json:"networkInterfaces,omitempty"`
	// Cidrs are all addresses of a service tag.
	// +kubebuilder:validation:MaxItems=10000
	// +listType=atomic
	// +optional
	Cidrs []string `json:"cidrs,omitempty"`
	// Group is the name of the Group with these addresses, for policies of this namespace.
	// +optional
	Group string `json:"group,omitempty"`
	// Ports that it listens at, as far as the cloud tells.
	// +listType=atomic
	// +optional
	Ports []NativeServicePort `json:"ports,omitempty"`
}

// CloudNativeService is an imported service of the cloud that has addresses in a VPC: a database, a
// load balancer, a private endpoint.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cns,scope=Namespaced
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.status.cloudName`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.status.kind`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.status.addresses`
// +kubebuilder:printcolumn:name="Port",type=string,JSONPath=`.status.ports[0].name`
// +kubebuilder:printcolumn:name="Policies",type=string,JSONPath=`.status.policySummary`
// +kubebuilder:printcolumn:name="Region",type=string,priority=1,JSONPath=`.status.region`
// +kubebuilder:printcolumn:name="Virtual-Private-Cloud",type=string,priority=1,JSONPath=`.status.cloudVpcId`
// +kubebuilder:printcolumn:name="DNS",type=string,priority=1,JSONPath=`.status.dnsName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:selectablefield:JSONPath=`.status.cloudId`
// +kubebuilder:selectablefield:JSONPath=`.status.kind`
// +kubebuilder:selectablefield:JSONPath=`.status.region`
type CloudNativeService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Status CloudNativeServiceStatus `json:"status,omitempty"`
}

// CloudNativeServiceList is a list of CloudNativeService.
// +kubebuilder:object:root=true
type CloudNativeServiceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloudNativeService `json:"items"`
}
