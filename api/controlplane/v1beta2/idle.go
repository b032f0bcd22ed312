package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EgressGroup is a set of Pods that leave the cluster through an Egress. Nephele computes none;
// enforcers that ask for them learn that there are none.
// +kubebuilder:object:root=true
type EgressGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	GroupMembers      []GroupMember `json:"groupMembers,omitempty" protobuf:"bytes,2,rep,name=groupMembers"`
}

// EgressGroupPatch is a change of the members of an EgressGroup: additions first, then removals. In
// JSON its keys are as Antrea has them, whose type names none.
// +kubebuilder:object:root=true
type EgressGroupPatch struct {
	metav1.TypeMeta     `json:",inline"`
	metav1.ObjectMeta   `json:",inline" protobuf:"bytes,1,opt,name=objectMeta"`
	AddedGroupMembers   []GroupMember `json:"AddedGroupMembers" protobuf:"bytes,2,rep,name=addedGroupMembers"`
	RemovedGroupMembers []GroupMember `json:"RemovedGroupMembers" protobuf:"bytes,3,rep,name=removedGroupMembers"`
}

// EgressGroupList is a list of EgressGroup.
// +kubebuilder:object:root=true
type EgressGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []EgressGroup `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// SupportBundleCollection asks enforcers to collect logs and state. Nephele asks for none;
// enforcers that ask learn that there are none.
// +kubebuilder:object:root=true
type SupportBundleCollection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	ExpiredAt         metav1.Time                   `json:"expiredAt,omitempty" protobuf:"bytes,2,opt,name=expiredAt"`
	SinceTime         string                        `json:"sinceTime,omitempty" protobuf:"bytes,3,opt,name=sinceTime"`
	FileServer        BundleFileServer              `json:"fileServer,omitempty" protobuf:"bytes,4,opt,name=fileServer"`
	Authentication    BundleServerAuthConfiguration `json:"authentication,omitempty" protobuf:"bytes,5,opt,name=authentication"`
}

// SupportBundleCollectionList is a list of SupportBundleCollection.
// +kubebuilder:object:root=true
type SupportBundleCollectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Items []SupportBundleCollection `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// BundleFileServer is where a bundle goes.
type BundleFileServer struct {
	URL           string `json:"url,omitempty" protobuf:"bytes,1,opt,name=url"`
	HostPublicKey []byte `json:"hostPublicKey,omitempty" protobuf:"bytes,2,opt,name=hostPublicKey"`
}

// BundleServerAuthConfiguration says how to log in at the file server; one field is set.
type BundleServerAuthConfiguration struct {
	BearerToken         string               `json:"bearerToken,omitempty" protobuf:"bytes,1,opt,name=bearerToken"`
	APIKey              string               `json:"apiKey,omitempty" protobuf:"bytes,2,opt,name=apiKey"`
	BasicAuthentication *BasicAuthentication `json:"basicAuthentication,omitempty" protobuf:"bytes,3,opt,name=basicAuthentication"`
}

// BasicAuthentication is a user name with its password.
type BasicAuthentication struct {
	Username string `json:"username,omitempty" protobuf:"bytes,1,opt,name=username"`
	Password string `json:"password,omitempty" protobuf:"bytes,2,opt,name=password"`
}

// SupportBundleCollectionStatus is what enforcers say about a collection.
// +kubebuilder:object:root=true
type SupportBundleCollectionStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Nodes             []SupportBundleCollectionNodeStatus `json:"nodes,omitempty" protobuf:"bytes,2,rep,name=nodes"`
}

// SupportBundleCollectionNodeStatus is what one enforcer says about a collection.
type SupportBundleCollectionNodeStatus struct {
	NodeName      string                `json:"nodeName,omitempty" protobuf:"bytes,1,opt,name=nodeName"`
	NodeNamespace string                `json:"nodeNamespace,omitempty" protobuf:"bytes,2,opt,name=nodeNamespace"`
	NodeType      SupportBundleNodeType `json:"nodeType,omitempty" protobuf:"bytes,3,opt,name=nodeType,casttype=SupportBundleNodeType"`
	Completed     bool                  `json:"completed,omitempty" protobuf:"varint,4,opt,name=completed"`
	Error         string                `json:"error,omitempty" protobuf:"bytes,5,opt,name=error"`
}

// SupportBundleNodeType says what kind of enforcer collects.
type SupportBundleNodeType string

// The types.
const (
	SupportBundleNode         SupportBundleNodeType = "Node"
	SupportBundleExternalNode SupportBundleNodeType = "ExternalNode"
)
