package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NativeServiceKind says what a native service is.
// +kubebuilder:validation:Enum=RDSInstance;RDSCluster;ElastiCacheCluster;ElastiCacheReplicationGroup;ApplicationLoadBalancer;NetworkLoadBalancer;GatewayLoadBalancer;VPCEndpoint;EFSFileSystem;LambdaFunction;PrivateEndpoint;LoadBalancer;ApplicationGateway;ServiceTag
type NativeServiceKind string

// The kinds of native services.
const (
	// NativeServiceRDSInstance is a database instance of RDS, one of an Aurora cluster included.
	// Its port is named after its engine: postgres, mysql, oracle, sqlserver or mongodb. It can be
	// guarded.
	NativeServiceRDSInstance NativeServiceKind = "RDSInstance"
	// NativeServiceRDSCluster is an Aurora or Multi-AZ cluster of RDS: all of its instances, which
	// share its security groups. It has the ports of an RDSInstance, and can be guarded as a whole.
	NativeServiceRDSCluster NativeServiceKind = "RDSCluster"
	// NativeServiceElastiCacheCluster is a cache cluster of ElastiCache: one member of a
	// replication group. Its port is redis or memcached. It can be guarded.
	NativeServiceElastiCacheCluster NativeServiceKind = "ElastiCacheCluster"
	// NativeServiceElastiCacheReplicationGroup is a replication group of ElastiCache: all of its
	// members, which share its security groups. Its port is redis. It can be guarded as a whole.
	NativeServiceElastiCacheReplicationGroup NativeServiceKind = "ElastiCacheReplicationGroup"
	// NativeServiceApplicationLoadBalancer is an application load balancer of AWS. Each listener
	// has a port such as https-443, or https while it is the only one. It can be guarded, unless it
	// was made without groups.
	NativeServiceApplicationLoadBalancer NativeServiceKind = "ApplicationLoadBalancer"
	// NativeServiceNetworkLoadBalancer is a network load balancer of AWS. What is said of an
	// application load balancer holds for it.
	NativeServiceNetworkLoadBalancer NativeServiceKind = "NetworkLoadBalancer"
	// NativeServiceGatewayLoadBalancer is a gateway load balancer of AWS. It has no named ports and
	// cannot be guarded.
	NativeServiceGatewayLoadBalancer NativeServiceKind = "GatewayLoadBalancer"
	// NativeServiceVPCEndpoint is an interface endpoint of a VPC. Its port is https. It can be
	// guarded, unless a service of AWS manages it.
	NativeServiceVPCEndpoint NativeServiceKind = "VPCEndpoint"
	// NativeServiceEFSFileSystem is a file system of EFS with its mount targets. Its port is nfs.
	// It can be guarded, all mount targets alike.
	NativeServiceEFSFileSystem NativeServiceKind = "EFSFileSystem"
	// NativeServiceLambdaFunction is a function of Lambda that is attached to a VPC. It has no
	// named ports and cannot be guarded.
	NativeServiceLambdaFunction NativeServiceKind = "LambdaFunction"
	// NativeServicePrivateEndpoint is a private endpoint of Azure, by which a database, storage or
	// another service is reached from a virtual network. Its ports are sqlserver, postgres, mysql,
	// redis (6380), smb or https. It cannot be guarded.
	NativeServicePrivateEndpoint NativeServiceKind = "PrivateEndpoint"
	// NativeServiceLoadBalancer is a load balancer of Azure, internal or public. Each rule has a
	// port such as tcp-1433 or https-443. It keeps the client's address, and cannot be guarded.
	NativeServiceLoadBalancer NativeServiceKind = "LoadBalancer"
	// NativeServiceApplicationGateway is an application gateway of Azure. Each listener has a port
	// such as https-443. It sends from its subnet, and cannot be guarded.
	NativeServiceApplicationGateway NativeServiceKind = "ApplicationGateway"
	// NativeServiceServiceTag is a service tag of Azure: a list of addresses, for example
	// Sql.WestEurope, which becomes a Group. Only a selector that names it selects it. It can only
	// be a peer.
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
