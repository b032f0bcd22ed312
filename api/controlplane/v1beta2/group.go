package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddressGroup is a set of peers: its members have addresses.
// +kubebuilder:object:root=true
type AddressGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	GroupMembers      []GroupMember `json:"groupMembers,omitempty" protobuf:"bytes,2,rep,name=groupMembers"`
}

// AddressGroupList is a list of AddressGroup.
// +kubebuilder:object:root=true
type AddressGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []AddressGroup `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// AddressGroupPatch is a change of the members of an AddressGroup: additions first, then removals.
// +kubebuilder:object:root=true
type AddressGroupPatch struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	AddedGroupMembers   []GroupMember `json:"addedGroupMembers,omitempty" protobuf:"bytes,2,rep,name=addedGroupMembers"`
	RemovedGroupMembers []GroupMember `json:"removedGroupMembers,omitempty" protobuf:"bytes,3,rep,name=removedGroupMembers"`
}

// AppliedToGroup is a set of workloads that rules are applied to: its members have no addresses.
// +kubebuilder:object:root=true
type AppliedToGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	GroupMembers      []GroupMember `json:"groupMembers,omitempty" protobuf:"bytes,2,rep,name=groupMembers"`
}

// AppliedToGroupList is a list of AppliedToGroup.
// +kubebuilder:object:root=true
type AppliedToGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []AppliedToGroup `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// AppliedToGroupPatch is a change of the members of an AppliedToGroup: additions first, then
// removals.
// +kubebuilder:object:root=true
type AppliedToGroupPatch struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	AddedGroupMembers   []GroupMember `json:"addedGroupMembers,omitempty" protobuf:"bytes,2,rep,name=addedGroupMembers"`
	RemovedGroupMembers []GroupMember `json:"removedGroupMembers,omitempty" protobuf:"bytes,3,rep,name=removedGroupMembers"`
}

// GroupMember is one workload in a group. One of Pod, ExternalEntity, Node and Service is set; that
// reference together with the bytes of IPs is its identity.
type GroupMember struct {
	Pod            *PodReference            `json:"pod,omitempty" protobuf:"bytes,1,opt,name=pod"`
	ExternalEntity *ExternalEntityReference `json:"externalEntity,omitempty" protobuf:"bytes,2,opt,name=externalEntity"`
	// IPs of the member; none in applied-to groups.
	IPs []IPAddress `json:"ips,omitempty" protobuf:"bytes,3,rep,name=ips,casttype=IPAddress"`
	// Ports that rules may refer to by name.
	Ports   []NamedPort       `json:"ports,omitempty" protobuf:"bytes,4,rep,name=ports"`
	Node    *NodeReference    `json:"node,omitempty" protobuf:"bytes,5,opt,name=node"`
	Service *ServiceReference `json:"service,omitempty" protobuf:"bytes,6,opt,name=service"`
}

// PodReference points at a Pod.
type PodReference struct {
	Name      string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
}

// ExternalEntityReference points at an ExternalEntity.
type ExternalEntityReference struct {
	Name      string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
}

// ServiceReference points at a Service.
type ServiceReference struct {
	Name      string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Namespace string `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace"`
}

// NodeReference points at a Node.
type NodeReference struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
}

// NamedPort is a port of a member that rules may refer to by name.
type NamedPort struct {
	Port     int32    `json:"port,omitempty" protobuf:"varint,1,opt,name=port"`
	Name     string   `json:"name,omitempty" protobuf:"bytes,2,opt,name=name"`
	Protocol Protocol `json:"protocol,omitempty" protobuf:"bytes,3,opt,name=protocol,casttype=Protocol"`
}

// ClusterGroupMembers is one page of the members of a ClusterGroup.
// +kubebuilder:object:root=true
type ClusterGroupMembers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	EffectiveMembers  []GroupMember `json:"effectiveMembers" protobuf:"bytes,2,rep,name=effectiveMembers"`
	EffectiveIPBlocks []IPNet       `json:"effectiveIPBlocks" protobuf:"bytes,3,rep,name=effectiveIPBlocks"`
	TotalMembers      int64         `json:"totalMembers" protobuf:"varint,4,opt,name=totalMembers"`
	TotalPages        int64         `json:"totalPages" protobuf:"varint,5,opt,name=totalPages"`
	CurrentPage       int64         `json:"currentPage" protobuf:"varint,6,opt,name=currentPage"`
}

// GroupMembers is one page of the members of a Group.
// +kubebuilder:object:root=true
type GroupMembers struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	EffectiveMembers  []GroupMember `json:"effectiveMembers" protobuf:"bytes,2,rep,name=effectiveMembers"`
	EffectiveIPBlocks []IPNet       `json:"effectiveIPBlocks" protobuf:"bytes,3,rep,name=effectiveIPBlocks"`
	TotalMembers      int64         `json:"totalMembers" protobuf:"varint,4,opt,name=totalMembers"`
	TotalPages        int64         `json:"totalPages" protobuf:"varint,5,opt,name=totalPages"`
	CurrentPage       int64         `json:"currentPage" protobuf:"varint,6,opt,name=currentPage"`
}

// PaginationGetOptions asks for one page of members.
// +kubebuilder:object:root=true
type PaginationGetOptions struct {
	metav1.TypeMeta `json:",inline"`
	// Page counts from 1.
	Page int64 `json:"page,omitempty" protobuf:"varint,1,opt,name=page"`
	// Limit is the number of members in a page; 0 means all.
	Limit int64 `json:"limit,omitempty" protobuf:"varint,2,opt,name=limit"`
}

// GroupReference points at a Group, or at a ClusterGroup when Namespace is empty.
type GroupReference struct {
	Namespace string    `json:"namespace,omitempty" protobuf:"bytes,1,opt,name=namespace"`
	Name      string    `json:"name,omitempty" protobuf:"bytes,2,opt,name=name"`
	UID       types.UID `json:"uid,omitempty" protobuf:"bytes,3,opt,name=uid,casttype=k8s.io/apimachinery/pkg/types.UID"`
}

// GroupAssociation lists the groups that a Pod or ExternalEntity belongs to.
// +kubebuilder:object:root=true
type GroupAssociation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	AssociatedGroups  []GroupReference `json:"associatedGroups" protobuf:"bytes,2,rep,name=associatedGroups"`
}

// IPGroupAssociation lists the groups that an address belongs to.
// +kubebuilder:object:root=true
type IPGroupAssociation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	AssociatedGroups  []GroupReference `json:"associatedGroups" protobuf:"bytes,2,rep,name=associatedGroups"`
}
