package v1alpha1

// AWSCredential is the JSON object that the Secret of an AWS account holds. Either RoleArn, or both
// AccessKeyID and AccessKeySecret, must be set; with both, the keys are used to assume the role.
type AWSCredential struct {
	// AccessKeyID and AccessKeySecret are the static key pair.
	AccessKeyID     string `json:"accessKeyId,omitempty"`
	AccessKeySecret string `json:"accessKeySecret,omitempty"`
	// SessionToken goes with a temporary key pair.
	SessionToken string `json:"sessionToken,omitempty"`
	// RoleArn is the role to assume, with the keys if given, else with the identity of the process,
	// where that is granted.
	RoleArn string `json:"roleArn,omitempty"`
	// ExternalID is handed over when the role is assumed. Without keys it cannot be chosen: see
	// CloudProviderAccountStatus.ExternalID.
	ExternalID string `json:"externalId,omitempty"`
}

// AzureCredential is the JSON object that the Secret of an Azure account holds. SubscriptionID,
// TenantID and ClientID must be set, and ClientKey, ClientCertificate or SessionToken; of several
// SessionToken wins, then ClientCertificate. With none of them the identity of the process is used,
// where that is granted.
type AzureCredential struct {
	// SubscriptionID, TenantID and ClientID say which application of which tenant works on which
	// subscription.
	SubscriptionID string `json:"subscriptionId,omitempty"`
	TenantID       string `json:"tenantId,omitempty"`
	ClientID       string `json:"clientId,omitempty"`
	// ClientKey is the client secret.
	ClientKey string `json:"clientKey,omitempty"`
	// ClientCertificate is a certificate with its private key, in PEM.
	ClientCertificate string `json:"clientCertificate,omitempty"`
	// SessionToken is a federated assertion.
	SessionToken string `json:"sessionToken,omitempty"`
}
