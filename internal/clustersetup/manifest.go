// Package clustersetup writes the manifests and commands that prepare a cluster and
// its account for self-managed nodes, for kubectl and the AWS CLI. It calls no API.
package clustersetup

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
)

// Node describes the nodes of the manifests.
type Node struct {
	Cluster string
	// Role is the ARN of the nodes' role.
	Role    string
	Windows bool
	// The other fields are for the launch template: image, instance type, instance
	// profile, user data. AMI is empty without a launch template.
	AMI, InstanceType, Profile string
	UserData                   []byte
	// Subnets get tags when the cluster's version needs them.
	Subnets []string
	// Family is the family of the user data. KarpenterFamily is the amiFamily of it,
	// or empty where Karpenter writes no user data of the family.
	Family, KarpenterFamily string
	Volumes                 Volumes
	// SSM says that Session Manager must reach the nodes.
	SSM bool
	// CNIOnNode says that the VPC CNI uses the permissions of the nodes' role, and has
	// no role of its own.
	CNIOnNode bool
	// AWSAuth is the present ConfigMap, or nil when it is unknown. Without it, the
	// written manifest can only create one.
	AWSAuth []byte
	// Found is what exists already.
	Found Found
}

// Manifest is one row of the table.
type Manifest struct {
	// ID names the manifest in flags.
	ID string
	// About says what the manifest does and how to use it.
	About string

	write func(Node) (string, error)
}

// Table lists the manifests in the order of their use.
func Table() []Manifest {
	return []Manifest{
		{"role", "the nodes' role, its trust policy and its instance profile; run it with a shell", writeRole},
		{"policies", "permissions of the nodes' role; run it with a shell", writePolicies},
		{"cni-role", "a role for the VPC CNI by EKS Pod Identity; run it with a shell", writeCNIRole},
		{"access-entry", "lets the role in, where the authentication mode is API or API_AND_CONFIG_MAP; run it " +
			"with a shell", writeAccessEntry},
		{"aws-auth", "lets the role in, where the authentication mode is CONFIG_MAP; kubectl apply -f -, which " +
			"creates or, with --aws-auth, merges, and never replaces", writeAWSAuth},
		{"vpc-cni", "makes the VPC CNI serve Windows nodes; run it with a shell", writeVPCCNI},
		{"launch-template", "data for a launch template; aws ec2 create-launch-template --launch-template-name NAME " +
			"--launch-template-data file://FILE", writeLaunchTemplate},
		{"nodeclass", "Karpenter's EC2NodeClass for the image; kubectl create -f -, which never replaces",
			writeNodeClass},
		{"tags", "the tags that instances need, and subnets of clusters up to 1.18; run it with a shell", writeTags},
	}
}

// ByID finds a manifest.
func ByID(id string) (Manifest, error) {
	var known []string
	for _, m := range Table() {
		if m.ID == id {
			return m, nil
		}
		known = append(known, m.ID)
	}
	return Manifest{}, fmt.Errorf("the manifest %q is unknown; known manifests are %s", id, strings.Join(known, ", "))
}

// ErrNotNeeded says that this node does not need the manifest.
var ErrNotNeeded = errors.New("not needed")

// Write writes the manifest. ErrNotNeeded means that there is nothing to write.
func (m Manifest) Write(n Node) (string, error) {
	if n.Windows && n.ipv6() { // https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html
		return "", errors.New("windows: EKS does not support Windows nodes in IPv6 clusters")
	}
	text, err := m.write(n)
	for _, said := range n.Found.Unread[m.ID] {
		if err == nil && m.ID != "launch-template" { // JSON has no comments
			text = Comment("This could not be read, so the next lines assume that nothing exists: "+said) + text
		}
	}
	if err != nil && !errors.Is(err, ErrNotNeeded) {
		return "", fmt.Errorf("writing %s: %w", m.ID, err)
	}
	return text, err
}

func (n Node) role() (partition, account, name string) {
	arn := awsnames.Split(n.Role)
	return arn.Partition, arn.Account, arn.Resource[strings.LastIndex(arn.Resource, "/")+1:]
}

// path is the role's path, or empty.
func (n Node) path() string {
	_, _, name := n.role()
	path := strings.TrimSuffix(strings.TrimPrefix(awsnames.Split(n.Role).Resource, "role"), name)
	if path == "/" {
		return ""
	}
	return path
}

// writeVPCCNI sets one key of a ConfigMap that has other keys. A manifest for
// kubectl apply would remove keys that were applied before.
func writeVPCCNI(n Node) (string, error) {
	if !n.Windows {
		return "", ErrNotNeeded
	}
	return `kubectl patch configmap amazon-vpc-cni -n kube-system --type merge ` +
		`--patch 'data: {enable-windows-ipam: "true"}' || \
  kubectl create configmap amazon-vpc-cni -n kube-system --from-literal=enable-windows-ipam=true
`, nil
}

// ipv6 says that the cluster's pods have IPv6 addresses.
func (n Node) ipv6() bool { return n.Found.Cluster.IPFamily == "ipv6" }

func (n Node) securityGroups() []string { return []string{n.Found.Cluster.ClusterSecurityGroup} }

func (n Node) tag() string { return "kubernetes.io/cluster/" + n.Cluster }

func writeTags(n Node) (string, error) {
	text := fmt.Sprintf("aws ec2 create-tags --resources INSTANCE --tags Key=%s,Value=owned\n", n.tag())
	if len(n.Subnets) > 0 {
		text += fmt.Sprintf("aws ec2 create-tags --resources %s --tags Key=%s,Value=shared\n",
			strings.Join(n.Subnets, " "), n.tag())
	}
	return text, nil
}

func writeLaunchTemplate(n Node) (string, error) {
	if n.AMI == "" {
		return "", ErrNotNeeded
	}
	disks, err := n.disks()
	if err != nil {
		return "", err
	}
	var devices []map[string]any
	for _, d := range disks {
		devices = append(devices, map[string]any{"DeviceName": d.device, "Ebs": given(map[string]any{
			"VolumeSize": d.size, "VolumeType": "gp3", "Encrypted": d.encrypted, "KmsKeyId": d.key,
			"SnapshotId":               d.snapshot,
			"VolumeInitializationRate": d.rate, "DeleteOnTermination": true,
		})})
	}
	text, err := json.MarshalIndent(given(map[string]any{
		"ImageId": n.AMI, "InstanceType": n.InstanceType, "SecurityGroupIds": n.securityGroups(),
		"UserData":            base64.StdEncoding.EncodeToString(n.UserData),
		"IamInstanceProfile":  map[string]string{"Name": n.profileName()},
		"BlockDeviceMappings": devices,
		// Two hops, so that pods can reach the metadata service.
		"MetadataOptions": map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
		"TagSpecifications": []map[string]any{
			{"ResourceType": "instance", "Tags": []map[string]string{{"Key": n.tag(), "Value": "owned"}}},
		},
	}), "", "  ")
	return string(text) + "\n", err
}

// given leaves out the fields without a value.
func given(fields map[string]any) map[string]any {
	maps.DeleteFunc(fields, func(_ string, v any) bool { return reflect.ValueOf(v).IsZero() })
	return fields
}

// EntryType is the type of the nodes' access entry.
func (n Node) EntryType() string {
	if n.Windows {
		return "EC2_WINDOWS"
	}
	return "EC2_LINUX"
}

// The rules for types, accounts and paths:
// https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
func writeAccessEntry(n Node) (string, error) {
	kind, there := n.EntryType(), n.Found.Entry
	var s script
	create := func() {
		s.run("aws", "eks", "create-access-entry", "--cluster-name", n.Cluster, "--principal-arn", n.Role, "--type",
			kind)
	}
	switch {
	case n.Found.Cluster.AuthenticationMode == ConfigMap:
		return "", blocked("the authentication mode of the cluster %s is CONFIG_MAP, which ignores access entries: "+
			"use aws-auth, or first `aws eks update-cluster-config --name %s --access-config "+
			"authenticationMode=API_AND_CONFIG_MAP`, which cannot be undone", n.Cluster, n.Cluster)
	case n.foreign() && n.Found.Cluster.AuthenticationMode == "API":
		return "", blocked("the role %s is in another account than the cluster %s, and EKS accepts no access entry "+
			"for such nodes: use a role in the account %s", n.Role, n.Cluster, n.Found.account())
	case n.foreign():
		return "", blocked("the role %s is in another account than the cluster %s, and EKS accepts no access entry "+
			"for such nodes: use aws-auth, or a role in the account %s", n.Role, n.Cluster, n.Found.account())
	case there == nil || there.Type == "":
		create()
	case there.Type != kind:
		return "", blocked("the access entry of %s has the type %s, but these nodes need %s: EKS cannot change a "+
			"type, and others may use the entry, so give these nodes their own role", n.Role, there.Type, kind)
	case n.Found.Role != nil && n.Found.Role.Name == "":
		// EKS keeps the ID of the deleted role, so the entry lets no new role in.
		s.comment("The role does not exist. Its access entry is for a deleted role and would not let a new role of " +
			"that name in.")
		s.run("aws", "eks", "delete-access-entry", "--cluster-name", n.Cluster, "--principal-arn", n.Role)
		create()
	case there.Username != "" && there.Username != Username:
		return "", blocked("the access entry of %s has the username %q, but nodes need %s: others may use the entry, "+
			"so give these nodes their own role", n.Role, there.Username, Username)
	}
	return s.done("the access entry of %s has the type %s.", n.Role, kind), nil
}

// ConfigMap is the authentication mode in which only aws-auth decides.
const ConfigMap = "CONFIG_MAP"
