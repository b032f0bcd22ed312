package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeCertificate is created by the agent of a Node, whose name it has, and answered at once: with
// a certificate by which other Nodes know it when they encrypt by IPsec. It says the name and the
// uid of the Node, whatever the request says, and nothing is kept.
//
// +kubebuilder:object:root=true
type NodeCertificate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              NodeCertificateSpec   `json:"spec"`
	Status            NodeCertificateStatus `json:"status,omitempty"`
}

// NodeCertificateSpec is what an agent asks.
type NodeCertificateSpec struct {
	// Request is a certificate request in PEM. Its key counts, which is of ECDSA or Ed25519.
	Request string `json:"request"`
}

// NodeCertificateStatus is the answer.
type NodeCertificateStatus struct {
	// Certificate is that of the Node, Authorities those that sign certificates of Nodes, in PEM.
	Certificate string `json:"certificate,omitempty"`
	Authorities string `json:"authorities,omitempty"`
}
