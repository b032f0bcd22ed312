package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ControllerBundleName is the name of the one SupportBundle that a controller makes.
const ControllerBundleName = "controller"

// SupportBundleStatus is how far a bundle is.
type SupportBundleStatus string

// The states of a bundle.
const (
	// SupportBundleNone: there is none. Nobody has asked for one, it could not be made, it was
	// deleted, or an hour has passed.
	SupportBundleNone SupportBundleStatus = "None"
	// SupportBundleCollecting: it is being made.
	SupportBundleCollecting SupportBundleStatus = "Collecting"
	// SupportBundleCollected: it can be downloaded.
	SupportBundleCollected SupportBundleStatus = "Collected"
)

// SupportBundle is what a controller collects for support. Creating it starts the collection; the
// subresource download is the bundle itself, a tar.gz.
// +kubebuilder:object:root=true
type SupportBundle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Since leaves out lines of logs that are older than this duration, such as 2h30m; empty leaves
	// out none.
	Since  string              `json:"since,omitempty"`
	Status SupportBundleStatus `json:"status,omitempty"`
	// Sum is the SHA-256 of the bundle, in hexadecimal digits, and Size its bytes.
	Sum  string `json:"sum,omitempty"`
	Size uint32 `json:"size,omitempty"`
}

// OpenAPIModelName is the name of SupportBundle in the description of the API.
func (SupportBundle) OpenAPIModelName() string { return modelPrefix + "SupportBundle" }
