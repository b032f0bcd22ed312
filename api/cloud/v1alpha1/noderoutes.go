package v1alpha1

// ConditionNodeRoutes (account): the routes to the Pods of every Node are in the route tables that
// the account names. While it is False the message names the route table or the Node, and what is
// wrong. Absent while the account names no route table.
const ConditionNodeRoutes = "NodeRoutes"

const (
	// ReasonTableNotFound: a route table is in none of the account's regions.
	ReasonTableNotFound = "TableNotFound"
	// ReasonTableClaimed: another control plane writes the routes of a table.
	ReasonTableClaimed = "TableClaimed"
	// ReasonNotRouted: some Pods' addresses are not routed, for the reasons that the message tells.
	ReasonNotRouted = "NotRouted"
)

// NodeRoutes has the controller write the routes to Pods into route tables of the cloud, for
// clusters whose Nodes are in several subnets and do not wrap packets (the mode noEncap). The
// podCIDRs of a Node lead to the interface that has the Node's internal address, and the controller
// turns off the check of source and destination there.
type NodeRoutes struct {
	// ClusterCIDRs are the ranges that Pods have their addresses from. A route whose destination
	// lies in one of them, and that leads to an interface, is the controller's: it is replaced and
	// removed as Nodes come and go.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 8",message="must be a CIDR of at most /8 without host bits, for example 10.244.0.0/16"
	// +listType=set
	ClusterCIDRs []string `json:"clusterCIDRs"`
	// RouteTables are the tables that are written, by their IDs: the tables of the subnets that
	// Nodes are in.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^rtb-[0-9a-f]{8,17}$`
	// +listType=set
	RouteTables []string `json:"routeTables"`
}

// AzureNodeRoutes has the controller write the routes to Pods into route tables of Azure, as
// NodeRoutes does on AWS: the podCIDRs of a Node lead to the address of the interface that has the
// Node's internal address, and the controller turns on IP forwarding there.
type AzureNodeRoutes struct {
	// ClusterCIDRs are the ranges that Pods have their addresses from. A route whose destination
	// lies in one of them, and whose name begins with nephele-, is the controller's.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked() && cidr(self).prefixLength() >= 8",message="must be a CIDR of at most /8 without host bits, for example 10.244.0.0/16"
	// +listType=set
	ClusterCIDRs []string `json:"clusterCIDRs"`
	// RouteTables are the tables that are written, by their IDs: the tables of the subnets that
	// Nodes are in, which are subnets of one virtual network for each table.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=300
	// +kubebuilder:validation:items:Pattern=`^/subscriptions/[0-9a-fA-F-]{36}/resource[gG]roups/[^/]{1,90}/providers/[mM]icrosoft[.][nN]etwork/route[tT]ables/[^/]{1,80}$`
	// +listType=set
	RouteTables []string `json:"routeTables"`
}

// NodeRoutesStatus is what the controller has written, or is about to write. What is listed here
// and is no longer asked for, is taken back.
type NodeRoutesStatus struct {
	// Tables hold routes to Nodes.
	// +listType=map
	// +listMapKey=id
	// +optional
	Tables []NodeRouteTable `json:"tables,omitempty"`
	// Interfaces are those whose check of source and destination the controller has turned off, or
	// whose IP forwarding it has turned on, as "REGION/ID".
	// +listType=set
	// +optional
	Interfaces []string `json:"interfaces,omitempty"`
}

// NodeRouteTable is a route table that holds routes to Nodes.
type NodeRouteTable struct {
	// ID of the route table.
	ID string `json:"id"`
	// Region that it is in.
	Region string `json:"region"`
	// ClusterCIDRs are the ranges in which its routes are the controller's.
	// +listType=set
	ClusterCIDRs []string `json:"clusterCIDRs"`
	// Routes is the number of routes to Nodes that it has.
	// +optional
	Routes int32 `json:"routes"`
}
