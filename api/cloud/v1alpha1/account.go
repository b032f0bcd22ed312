package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CloudProvider names a cloud.
// +kubebuilder:validation:Enum=AWS;Azure
type CloudProvider string

// The clouds an account may belong to.
const (
	CloudProviderAWS   CloudProvider = "AWS"
	CloudProviderAzure CloudProvider = "Azure"
)

// Bounds of CloudProviderAccountSpec.PollIntervalInSeconds, in seconds.
const (
	DefaultPollIntervalInSeconds int32 = 60
	MinPollIntervalInSeconds     int32 = 30
)

// While events are proven to come, a region is read whole after RestIntervals poll intervals, or
// after MaxRestInSeconds if that is less; an interval that is longer stays as it is.
const (
	RestIntervals    int32 = 5
	MaxRestInSeconds int32 = 300
)

// SecretReference points at one key of a Secret.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Secret; it need not be the namespace of the account.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Key in the data of the Secret. Its value is a JSON object: AWSCredential or AzureCredential.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// CloudProviderAccountAWSConfig is what is needed to work on an AWS account.
type CloudProviderAccountAWSConfig struct {
	// SecretRef points at the credentials.
	SecretRef *SecretReference `json:"secretRef"`
	// Region lists the regions of the account to work on, for example us-west-2.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	// +listType=set
	Region []string `json:"region"`
	// Endpoint, when set, is the http or https URL used for EC2, STS and SQS in every region
	// instead of the public ones. The controller must allow it (--allowed-endpoints), and the
	// Secret must hold keys.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || (isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0)",message="endpoint must be an http or https URL with a host"
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// EventQueue lists SQS queues that EventBridge puts events about the account into. They bring
	// changes to attention within seconds; without them, and while they cannot be read, changes are
	// found by polling.
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=url
	// +optional
	EventQueue []AWSEventQueue `json:"eventQueue,omitempty"`
	// FlowLogs lists buckets of S3 that VPC flow logs of the account are written into. They are
	// read, and never written.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	FlowLogs []AWSFlowLogs `json:"flowLogs,omitempty"`
	// Quotas are the account's limits where they differ from the cloud's defaults. They decide what
	// fits: tell them lower than they are and more is refused, tell them higher and calls fail.
	// +optional
	Quotas *AWSQuotas `json:"quotas,omitempty"`
	// NodeRoutes has the routes to Pods written into route tables of the account. Its author must
	// be allowed to list Nodes.
	// +optional
	NodeRoutes *NodeRoutes `json:"nodeRoutes,omitempty"`
}

// AWSFlowLogs is a bucket with flow logs, as AWS writes them: files whose names begin with
// AWSLogs/, after a prefix if the flow log has one.
type AWSFlowLogs struct {
	// Bucket is its name.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9][a-z0-9.-]*[a-z0-9]$`
	Bucket string `json:"bucket"`
	// Region of the bucket; left out, it is the first region of the account.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	// +optional
	Region string `json:"region,omitempty"`
	// Prefix is what the destination of the flow log has after the bucket.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!_.*'()/-]*$`
	// +optional
	Prefix string `json:"prefix,omitempty"`
}

// AWSQuotas are limits of an account, the same in all its regions. What is left out is the cloud's
// default.
// +kubebuilder:validation:XValidation:rule="(has(self.rulesPerGroup) ? self.rulesPerGroup : 60) * (has(self.groupsPerInterface) ? self.groupsPerInterface : 5) <= 1000",message="rulesPerGroup (default 60) times groupsPerInterface (default 5) must be at most 1000"
type AWSQuotas struct {
	// RulesPerGroup is "Inbound or outbound rules per security group" (L-0EA8095F), by default 60.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	RulesPerGroup int32 `json:"rulesPerGroup,omitempty"`
	// GroupsPerInterface is "Security groups per network interface" (L-2AFB9258), by default 5.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	// +optional
	GroupsPerInterface int32 `json:"groupsPerInterface,omitempty"`
	// GroupsPerRegion is "VPC security groups per Region" (L-E79EC296), by default 2500.
	// +kubebuilder:validation:Minimum=1
	// +optional
	GroupsPerRegion int32 `json:"groupsPerRegion,omitempty"`
}

// AWSEventQueue is a standard SQS queue with EventBridge events, of one or several regions, of
// which nobody else takes messages.
type AWSEventQueue struct {
	// URL of the queue, for example
	// https://sqs.us-west-2.amazonaws.com/111122223333/nephele-events. A host that is not one of
	// AWS must be allowed as an endpoint is.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && size(url(self).getHost()) > 0",message="url must be an http or https URL with a host"
	URL string `json:"url"`
	// Region of the queue; left out, it is the one in the host name of the URL, or else the first
	// region of the account.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+(-[a-z0-9]+)*$`
	// +optional
	Region string `json:"region,omitempty"`
}

// CloudProviderAccountAzureConfig is what is needed to work on an Azure subscription.
type CloudProviderAccountAzureConfig struct {
	// SecretRef points at the credentials.
	SecretRef *SecretReference `json:"secretRef"`
	// Region lists the locations of the subscription to work on, for example westus2.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`\S`
	// +listType=set
	Region []string `json:"region"`
	// Cloud says where the subscription is; left out, it is the public Azure cloud.
	// +optional
	Cloud *AzureCloud `json:"cloud,omitempty"`
	// FlowLogs lists containers of blobs that flow logs of the subscription's virtual networks are
	// written into. They are read, and never written.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	FlowLogs []AzureFlowLogs `json:"flowLogs,omitempty"`
	// Quotas are the subscription's limits where they differ from Azure's own. They decide what
	// fits: tell them lower than they are and more is refused, tell them higher and calls fail.
	// +optional
	Quotas *AzureQuotas `json:"quotas,omitempty"`
	// NodeRoutes has the routes to Pods written into route tables of the subscription. Its author
	// must be allowed to list Nodes.
	// +optional
	NodeRoutes *AzureNodeRoutes `json:"nodeRoutes,omitempty"`
}

// AzureFlowLogs is a container of blobs with flow logs, as Network Watcher writes them.
type AzureFlowLogs struct {
	// Container is its URL, for example
	// https://acme.blob.core.windows.net/insights-logs-flowlogflowevent.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && size(url(self).getHost()) > 0",message="container must be an https URL with a host"
	Container string `json:"container"`
}

// AzureQuotas are limits of a subscription, the same in all its regions. What is left out is the
// default of Azure.
type AzureQuotas struct {
	// NetworkSecurityGroups in a region, by default 5000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	NetworkSecurityGroups int32 `json:"networkSecurityGroups,omitempty"`
	// ApplicationSecurityGroups in a region, by default 3000.
	// +kubebuilder:validation:Minimum=1
	// +optional
	ApplicationSecurityGroups int32 `json:"applicationSecurityGroups,omitempty"`
}

// AzureCloud is an Azure cloud other than the public one: a sovereign one, Azure Stack, or a
// simulator. The hosts that it names must be allowed as endpoints are.
type AzureCloud struct {
	// Authority is the URL of the login, for example https://login.microsoftonline.us.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && size(url(self).getHost()) > 0",message="authority must be an https URL with a host"
	Authority string `json:"authority"`
	// ResourceManager is the URL of Azure Resource Manager, for example
	// https://management.usgovcloudapi.net.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && size(url(self).getHost()) > 0",message="resourceManager must be an https URL with a host"
	ResourceManager string `json:"resourceManager"`
	// Audience is what tokens are asked for; left out, it is ResourceManager.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Audience string `json:"audience,omitempty"`
	// CABundle are certificates in PEM, by which the hosts are trusted instead of by the system's
	// certificates.
	// +kubebuilder:validation:MaxLength=65536
	// +optional
	CABundle string `json:"caBundle,omitempty"`
}

// CloudProviderAccountSpec says which account of which cloud to work on, and how.
// +kubebuilder:validation:XValidation:rule="has(self.awsConfig) != has(self.azureConfig)",message="exactly one of awsConfig and azureConfig must be set",reason=FieldValueRequired,fieldPath=".awsConfig"
type CloudProviderAccountSpec struct {
	// PollIntervalInSeconds is the longest time between two inventories of the account, in seconds;
	// a region of which events are proven to come may rest for five of them, up to five minutes.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	// +optional
	PollIntervalInSeconds *int32 `json:"pollIntervalInSeconds,omitempty"`
	// Mode is that of the selectors that name none; empty means enforce. Selectors of namespaces
	// that have no say in it (see releaseNamespaces) may not write more.
	// +optional
	Mode EnforcementMode `json:"mode,omitempty"`
	// MaxPerWave bounds how many virtual machines and security groups in use are changed before the
	// account is read again and found as planned. Absent means no bound.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxPerWave *int32 `json:"maxPerWave,omitempty"`
	// PropagationSeconds is how long the cloud takes to put into force what its API has accepted:
	// a step that relies on earlier ones waits so long after them. 0 means that no step waits, and
	// the order of steps holds at the API only. Absent means what the controller is told by
	// --propagation, 3 seconds if nothing.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	// +optional
	PropagationSeconds *int32 `json:"propagationSeconds,omitempty"`
	// Brake bounds what is done at once without a confirmation. Absent means its defaults.
	// +optional
	Brake *Brake `json:"brake,omitempty"`
	// Failsafe is traffic that no policy can forbid.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Failsafe []FailsafeFlow `json:"failsafe,omitempty"`
	// AllowedNamespaces are the namespaces whose selectors may select virtual machines of the
	// account, beside the account's own. Absent means all namespaces, present and empty none but
	// its own.
	// +optional
	AllowedNamespaces *NamespaceGrant `json:"allowedNamespaces,omitempty"`
	// ReleaseNamespaces are the namespaces that have a say in what may be done to the account's
	// virtual machines, beside its own: only there break-glass is heeded, and where they select a
	// virtual machine, only their modes count.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	ReleaseNamespaces []string `json:"releaseNamespaces,omitempty"`
	// DeletionPolicy says whether the account, the selectors of it and their namespaces may be
	// deleted while virtual machines are guarded through them. Empty means status.deletionPolicy,
	// which is Protect for every account that was not there before the field was.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// UserTags says what becomes of spec.tags of the account's VirtualMachine objects; empty means
	// status.userTags, which is Separate for every account that was not there before the field was.
	// +optional
	UserTags UserTags `json:"userTags,omitempty"`
	// Dependents says what becomes of interfaces that are not under control, and whose own security
	// groups name a group that virtual machines give up when they are taken over. Empty means
	// Refuse.
	// +optional
	Dependents Dependents `json:"dependents,omitempty"`
	// DependentGroups are other answers for single security groups that hold such rules.
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=group
	// +optional
	DependentGroups []DependentGroup `json:"dependentGroups,omitempty"`
	// HostIdentity lets virtual machines that selectors hand to the agents in them enroll by what
	// the cloud signs about them. Absent means that each needs a token of its own.
	// +optional
	HostIdentity *HostIdentity `json:"hostIdentity,omitempty"`
	// AWSConfig is set for an AWS account.
	// +optional
	AWSConfig *CloudProviderAccountAWSConfig `json:"awsConfig,omitempty"`
	// AzureConfig is set for an Azure subscription.
	// +optional
	AzureConfig *CloudProviderAccountAzureConfig `json:"azureConfig,omitempty"`
}

// DefaultLaunchedWithinSeconds is what HostIdentity.LaunchedWithinSeconds is if it is left out.
const DefaultLaunchedWithinSeconds int32 = 3600

// HostIdentity says what is believed of virtual machines that enroll by a signature of the cloud.
type HostIdentity struct {
	// Certificates in PEM that what the cloud signs is checked by. AWS publishes them per region;
	// those for RSA-2048 are meant. For Azure they are the authorities that issue the certificates
	// of metadata.azure.com.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	Certificates string `json:"certificates"`
	// LaunchedWithinSeconds is how long after its launch a virtual machine can enroll so, by
	// default an hour; on Azure, after it was made. Every process in it can read what the cloud
	// signs, at any time.
	// +kubebuilder:validation:Minimum=60
	// +optional
	LaunchedWithinSeconds *int32 `json:"launchedWithinSeconds,omitempty"`
	// AnySource also takes requests that do not come from an address of the virtual machine, for
	// servers that are reached through address translation.
	// +optional
	AnySource bool `json:"anySource,omitempty"`
}

// RegionStatus says how current the inventory of one region is.
type RegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// LastSyncTime is when the region was last read as a whole; absent if never. What is known of
	// the region has this age.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// LastError is why the latest attempt to read the region failed; empty if it succeeded.
	// +optional
	LastError string `json:"lastError,omitempty"`
	// VMs is the number of virtual machines selected in the region.
	// +optional
	VMs int32 `json:"vms"`
	// Vpcs is the number of virtual private clouds in the region.
	// +optional
	Vpcs int32 `json:"vpcs"`
}

// CloudProviderAccountStatus says whether the account is usable and how current its inventory is.
type CloudProviderAccountStatus struct {
	// Error is the last account or inventory error; empty when there is none.
	// +optional
	Error string `json:"error,omitempty"`
	// CloudAccountID is the cloud's own number of the account that the credentials belonged to when
	// it was first read. Credentials of another account are refused, for what is held in the first
	// would be forgotten.
	// +optional
	CloudAccountID string `json:"cloudAccountId,omitempty"`
	// UserTags is what becomes of spec.tags of the VirtualMachine objects while the spec does not
	// say. It was decided when the account was first read: Merge for accounts of versions that knew
	// nothing else, Separate for all others.
	// +optional
	UserTags UserTags `json:"userTags,omitempty"`
	// DeletionPolicy is what holds while the spec does not say. It was decided when the account was
	// first read: Release for accounts of versions that knew nothing else, Protect for all others.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// GuardedVMs is the number of virtual machines that hold security groups of ours; absent before
	// that is known.
	// +optional
	GuardedVMs *int32 `json:"guardedVMs,omitempty"`
	// ExternalID is the external id with which the controller assumes the account's role, if it
	// does so with its own identity. It belongs to this account of this cluster; let the role's
	// trust policy demand it. With keys in the Secret it plays no part.
	// +optional
	ExternalID string `json:"externalId,omitempty"`
	// OtherInstance is the epoch of another instance of the controller, with the same cluster id,
	// because of which nothing is written to the account; empty if there is none. See the condition
	// SoleWriter.
	// +optional
	OtherInstance string `json:"otherInstance,omitempty"`
	// Conditions: Ready, CredentialsValid, Reachable, EventsReceived if the account has event
	// queues, SoleWriter once something is enforced, AuthorsChecked while nobody checks the rights
	// of authors, FlowLogsRead if it names buckets of flow logs, NodeRoutes if it names route
	// tables, and DeletionProtected while the account is not because of its age.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeRoutes is what was written into route tables; absent if nothing was.
	// +optional
	NodeRoutes *NodeRoutesStatus `json:"nodeRoutes,omitempty"`
	// LastSyncTime is when all regions had been read as a whole; it is the oldest of the regions'
	// times.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`
	// Regions tells the same per region.
	// +listType=map
	// +listMapKey=name
	// +optional
	Regions []RegionStatus `json:"regions,omitempty"`
}

// CloudProviderAccount is a cloud account whose virtual machines may be imported and guarded.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cpa,scope=Namespaced
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Break-Glass",type=string,JSONPath=`.status.conditions[?(@.type=="BreakGlass")].status`
// +kubebuilder:printcolumn:name="Braked",type=string,JSONPath=`.status.conditions[?(@.type=="Braked")].status`
// +kubebuilder:printcolumn:name="Sole-Writer",type=string,JSONPath=`.status.conditions[?(@.type=="SoleWriter")].status`
// +kubebuilder:printcolumn:name="Last-Sync",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CloudProviderAccount struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CloudProviderAccountSpec   `json:"spec"`
	Status CloudProviderAccountStatus `json:"status,omitempty"`
}

// CloudProviderAccountList is a list of CloudProviderAccount.
// +kubebuilder:object:root=true
type CloudProviderAccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CloudProviderAccount `json:"items"`
}
