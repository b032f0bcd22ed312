package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RevisionChange says what a revision is about.
// +kubebuilder:validation:Enum=Found;Created;Changed;Deleted
type RevisionChange string

// The changes.
const (
	// RevisionFound: the object was there, as recorded, when the history of it began.
	RevisionFound RevisionChange = "Found"
	// RevisionCreated: the object is new.
	RevisionCreated RevisionChange = "Created"
	// RevisionChanged: its content is another one.
	RevisionChanged RevisionChange = "Changed"
	// RevisionDeleted: it is gone. Such a revision has no content.
	RevisionDeleted RevisionChange = "Deleted"
)

// RevisedObject is the policy, group or tier that a revision is about.
type RevisedObject struct {
	// Group, Version and Kind are its type.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Namespace is empty for an object without one.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// UID tells it from others that had the name.
	UID types.UID `json:"uid"`
}

// RevisionAuthor is the author of a change, as far as it is known.
type RevisionAuthor struct {
	// User is the user that the API server authenticated. It is empty if the change was not seen at
	// admission.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	User string `json:"user,omitempty"`
	// Manager is the field manager, by which a program calls itself.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Manager string `json:"manager,omitempty"`
}

// RevisionSpec is what happened. It never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the past does not change"
type RevisionSpec struct {
	// Object is what was changed.
	Object RevisedObject `json:"object"`
	// Number counts the revisions of objects of this type and name.
	// +kubebuilder:validation:Minimum=1
	Number int64 `json:"number"`
	// Change is what was done to it.
	Change RevisionChange `json:"change"`
	// Generation is that of the object.
	Generation int64 `json:"generation"`
	// Merged is how many changes before this one are not recorded apart, because they came too
	// fast.
	// +optional
	Merged int64 `json:"merged,omitempty"`
	// Time is when the change was seen.
	Time metav1.Time `json:"time"`
	// Author is the author of the change.
	// +optional
	Author RevisionAuthor `json:"author,omitempty"`
	// Hash is that of what counts in the content: the spec, and annotations of nephele.io.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Hash string `json:"hash,omitempty"`
	// Content is the object as a manifest, in JSON: names, labels, annotations of nephele.io, and
	// the spec.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Content string `json:"content,omitempty"`
	// Compressed is the content where that is long: JSON, gzip, base64 in the standard alphabet. It
	// is no field of bytes, because rules read these in the alphabet of URLs: no status could be
	// written into a revision whose content has a character of the other one.
	// +kubebuilder:validation:MaxLength=524288
	// +optional
	Compressed string `json:"compressed,omitempty"`
	// Size is that of the content in bytes, also if it was too large to be kept.
	Size int64 `json:"size"`
	// Proof is the ID of a key of the controller, a colon, and the signature of all of the above.
	// What is not proven may be forged.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Proof string `json:"proof,omitempty"`
}

// RevisionAccount is what was done in a cloud account for the sake of a revision.
type RevisionAccount struct {
	// Account is NAMESPACE/NAME.
	Account string `json:"account"`
	// Calls counts the calls that changed something, by their name in the cloud.
	// +optional
	Calls map[string]int64 `json:"calls,omitempty"`
	// Failed is how many calls did not succeed, and LastError what the last of them said.
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// RevisionStatus is what became of it, until the next revision of the object.
type RevisionStatus struct {
	// Phase is that of the object's status.
	// +optional
	Phase string `json:"phase,omitempty"`
	// VMs says on how many of the VMs it is in force (2/3).
	// +optional
	VMs string `json:"vms,omitempty"`
	// Message is the object's own: what is refused, what is only planned.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when phase, VMs and message became what they are.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
	// Accounts are what was done in cloud accounts.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=account
	// +optional
	Accounts []RevisionAccount `json:"accounts,omitempty"`
}

// PolicyRevision is one entry of the history of a policy or group of its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=prev
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.object.kind`
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.object.name`
// +kubebuilder:printcolumn:name="Change",type=string,JSONPath=`.spec.change`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.author.user`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="When",type=date,JSONPath=`.spec.time`
type PolicyRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RevisionSpec   `json:"spec"`
	Status RevisionStatus `json:"status,omitempty"`
}

// PolicyRevisionList is a list of PolicyRevisions.
// +kubebuilder:object:root=true
type PolicyRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PolicyRevision `json:"items"`
}

// ClusterPolicyRevision is one entry of the history of a policy, group or tier without namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cprev,scope=Cluster
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.object.kind`
// +kubebuilder:printcolumn:name="Object",type=string,JSONPath=`.spec.object.name`
// +kubebuilder:printcolumn:name="Change",type=string,JSONPath=`.spec.change`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.author.user`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="When",type=date,JSONPath=`.spec.time`
type ClusterPolicyRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   RevisionSpec   `json:"spec"`
	Status RevisionStatus `json:"status,omitempty"`
}

// ClusterPolicyRevisionList is a list of ClusterPolicyRevisions.
// +kubebuilder:object:root=true
type ClusterPolicyRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterPolicyRevision `json:"items"`
}
