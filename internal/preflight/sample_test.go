package preflight

import (
	_ "embed"
	"regexp"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const (
	nodeRole = "arn:aws:iam::123456789012:role/node"
	ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
)

var (
	// joining is user data for the sample's cluster, and minimal an EC2NodeClass that the API
	// server accepts.
	//go:embed testdata/joining.mime
	joining string
	//go:embed testdata/minimal.yaml
	minimal string
	// authority is the certificate authority of the sample's cluster.
	authority = regexp.MustCompile(`certificateAuthority: (\S+)`).FindStringSubmatch(joining)[1]
)

func known[T any](value T) fact[T] { return fact[T]{value: value} }

// sample returns the facts of a node that passes every check. A test with the tag
// e2e compares them with those of moto.
func sample() *facts {
	owned := map[string]string{"kubernetes.io/cluster/my-cluster": "owned"}
	subnets := []awsapi.Subnet{
		{ID: "subnet-1", VPC: "vpc-1", Zone: "eu-west-1a", CIDR: "10.0.1.0/24", Free: 250, Tags: map[string]string{},
			Owner: "123456789012", Table: "rtb-1", Routes: over("nat-1")},
		{ID: "subnet-2", VPC: "vpc-1", Zone: "eu-west-1b", CIDR: "10.0.2.0/24", Free: 251, Tags: map[string]string{},
			Owner: "123456789012", Table: "rtb-main", Routes: over("nat-1")},
	}
	extra := nodeGroup()
	extra.ID = "sg-extra"
	cluster := func() awsapi.SecurityGroup {
		g := nodeGroup()
		g.ID, g.Ingress = "sg-cluster", []awsapi.Rule{{Protocol: "-1", Groups: []string{"sg-cluster"}}}
		return g
	}
	f := &facts{
		group:  fact[awsapi.NodeGroup]{absent: true},
		target: Target{Cluster: "my-cluster", Instance: "i-1"}, account: known("123456789012"),
		cluster: known(awsapi.Cluster{
			Name: "my-cluster", ARN: "arn:aws:eks:eu-west-1:123456789012:cluster/my-cluster", Status: "ACTIVE",
			Version:  "1.34",
			Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CA: authority, ServiceCIDR: "10.100.0.0/16",
			IPFamily:           "ipv4",
			AuthenticationMode: "API_AND_CONFIG_MAP", VPC: "vpc-1", Subnets: []string{"subnet-1", "subnet-2"},
			ClusterSecurityGroup: "sg-cluster",
			SecurityGroups:       []string{"sg-extra"}, PrivateAccess: true, Role: "arn:aws:iam::123456789012:role/cluster",
		}),
		launch: known(awsapi.Launch{
			From: "the instance i-1", Image: "ami-0123456789abcdef0", Type: "m6i.large", Tags: owned,
			Subnet: "subnet-1", SecurityGroups: []string{"sg-cluster"},
			Profile: "arn:aws:iam::123456789012:instance-profile/nodes", Tokens: "required", HopLimit: 2,
			PublicAddress: new(bool), IPv6Address: new(bool), State: "running",
		}),
		image: known(awsapi.Image{
			ID: "ami-0123456789abcdef0", Name: "node-1.34", Owner: "123456789012", State: "available",
			Architecture: "x86_64", RootDevice: "/dev/xvda",
			RootType: "ebs", Virtualization: "hvm", ENA: true, Tags: map[string]string{kubernetesTag: "1.34.4",
				"eksnode:distro": "debian"}, Snapshots: []string{"snap-1"},
			Devices: []awsapi.BlockDevice{{Name: "/dev/xvda", Snapshot: "snap-1"}},
		}),
		architectures: known([]string{"x86_64"}),
		types: known([]awsapi.InstanceType{{
			Name: "m6i.large", Architectures: []string{"x86_64"}, BootModes: []string{"legacy-bios",
				"uefi"}, Virtualization: []string{"hvm"}, TPM: true, Current: true, VCPUs: 2,
		}}),
		health: known(awsapi.Health{System: "ok", Instance: "ok",
			Storage: "ok"}), offerings: fact[[]string]{absent: true}, quotas: fact[[]awsapi.Quota]{absent: true},
		freePlan: fact[bool]{absent: true},
		spotRole: fact[awsapi.Role]{absent: true}, keys: fact[[]awsapi.Key]{absent: true},
		profile: known(awsapi.Profile{Name: "nodes", Role: &awsapi.Role{
			Name: "node", ARN: nodeRole, Trust: ec2Trust,
			Policies: []string{"AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy",
				"AmazonEKS_CNI_Policy", "AmazonSSMManagedInstanceCore"},
		}}),
		entry:   known(awsapi.AccessEntry{Type: "EC2_LINUX"}),
		subnets: known(slices.Clone(subnets[:1])), planeSubnets: known(subnets),
		acls:        known([]awsapi.ACL{openACL("acl-1", "subnet-1"), openACL("acl-2", "subnet-2")}),
		nodeGroups:  known([]awsapi.SecurityGroup{cluster()}),
		planeGroups: known([]awsapi.SecurityGroup{extra, cluster()}),
		vpc: known(awsapi.VPC{
			ID: "vpc-1", CIDRs: []string{"10.0.0.0/16"}, DNSSupport: true, DNSHostname: true,
			Domains:     []string{"eu-west-1.compute.internal"},
			NameServers: []string{"AmazonProvidedDNS"}, DHCP: "dopt-1",
		}),
		addons: known([]awsapi.Addon{
			{Name: "coredns", Version: "v1.12.1-eksbuild.2", Status: "ACTIVE"},
			{Name: "kube-proxy", Version: "v1.34.0-eksbuild.2", Status: "ACTIVE"},
			{Name: "vpc-cni", Version: "v1.20.4-eksbuild.2", Status: "ACTIVE"},
		}),
		nats: known([]awsapi.NAT{{ID: "nat-1", VPC: "vpc-1", State: "available", Addresses: []string{"198.51.100.1"},
			Subnet: &awsapi.Subnet{
				ID: "subnet-3", VPC: "vpc-1", Zone: "eu-west-1a", CIDR: "10.0.3.0/24", Free: 250, Tags: map[string]string{},
				Owner: "123456789012",
				Table: "rtb-public", Routes: over("igw-1"),
			}}}),
	}
	say(f, joining)
	return f
}

// templated returns the sample with a launch template instead of an instance. Its
// instances may use all subnets of the cluster.
func templated() *facts {
	f := sample()
	f.target = Target{Cluster: "my-cluster", Template: "nodes", TemplateVersion: "$Default"}
	l := &f.launch.value
	l.From, l.Template, l.Version, l.Profile = "the launch template nodes", "lt-1", "1", "nodes"
	l.Subnet, l.PublicAddress, l.IPv6Address, l.HopLimit = "", nil, nil, 0
	l.AllTags = []types.LaunchTemplateTagSpecification{{ResourceType: "instance", Tags: []types.Tag{
		{Key: aws.String("kubernetes.io/cluster/my-cluster"), Value: aws.String("owned")},
	}}}
	l.Metadata = map[string]any{"HttpTokens": "required"}
	l.State, f.health, f.keys = "", fact[awsapi.Health]{absent: true}, fact[[]awsapi.Key]{}
	f.offerings = known([]string{"eu-west-1a", "eu-west-1b"})
	f.quotas = known([]awsapi.Quota{{Name: "running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
		Service: "ec2", Code: "L-1216C47A", Limit: 5}})
	f.freePlan = known(false)
	f.subnets.value = slices.Clone(f.planeSubnets.value)
	return f
}

// lacking is what a simulation returns when a role lacks actions on all resources.
func lacking(f *facts, actions ...string) fact[[]awsapi.Decision] {
	var list []awsapi.Decision
	for _, n := range slices.Concat(f.workerNeeds(), f.registryNeeds(nil),
		needs(Warn, f.arn("ecr", "", "repository/eks/pause"), pulls()...), f.ssmNeeds(), f.cniNeeds()) {
		if slices.Contains(actions, n.Action) {
			list = append(list, awsapi.Decision{Question: n.Question})
		}
	}
	return known(list)
}

func over(gateway string) []awsapi.Route { return []awsapi.Route{{To: "0.0.0.0/0", Via: gateway}} }

func nodeGroup() awsapi.SecurityGroup {
	return awsapi.SecurityGroup{ID: "sg-node", Egress: []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0"}}}}
}

// openACL has the entries of a VPC's default network ACL.
func openACL(id, subnet string) awsapi.ACL {
	acl := awsapi.ACL{ID: id, Subnets: []string{subnet}}
	for _, number := range []int{100, 32767} {
		for _, egress := range []bool{true, false} {
			acl.Entries = append(acl.Entries, awsapi.ACLEntry{Number: number, Egress: egress, Allow: number == 100,
				Protocol: "-1", To: 65535, CIDR: "0.0.0.0/0"})
		}
	}
	return acl
}

// say sets the user data of the launch.
func say(f *facts, text string) {
	f.launch.value.UserData = []byte(text)
	f.userData = readUserData(f.launch.value)
}

// finding returns the finding of a check, or the finding that says why the check did not run.
func finding(t *testing.T, r Report, check string) Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool {
		return f.Check == check || slices.Contains(f.Unchecked, check)
	})
	require.GreaterOrEqual(t, i, 0, "%s in %+v", check, r)
	return r.Findings[i]
}

func found(t *testing.T, f *facts, check string) Finding {
	t.Helper()
	return finding(t, f.check(), check)
}

// faults are the findings for which the command fails.
func faults(r Report) []Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool {
		return f.Verdict != Fail && f.Verdict != Unknown
	})
}

// checkCase changes facts that pass every check. verdict is the check's, after the change.
type checkCase struct {
	check, verdict   string
	change           func(*facts)
	evidence, remedy string
}

// judge changes the facts and compares the finding. Its remedy must be a valid command.
func (c checkCase) judge(t *testing.T, f *facts) Finding {
	t.Helper()
	c.change(f)
	said := found(t, f, c.check)
	assert.Equal(t, c.verdict, string(said.Verdict), "%s: %s", c.check, said.Evidence)
	assert.Contains(t, said.Evidence, c.evidence)
	assert.Contains(t, said.Remedy, c.remedy)
	if said.Remedy != "" || said.Verdict != OK {
		assert.NoError(t, cli.Check(said.Remedy, "eksnode", "kubectl", "packer", "sh"), said.Remedy)
	}
	return said
}

// fullAccess is the policy that AWS gives endpoints.
const fullAccess = `{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}]}`

// closed removes the nodes' route to the internet and gives the VPC endpoints.
func closed(f *facts) {
	for i := range f.subnets.value {
		f.subnets.value[i].Routes = nil
	}
	f.vpc.value.Endpoints = endpoints()
	f.endpointGroups = known(f.nodeGroups.value[:1])
}

// endpointGroup closes the network and gives its endpoints a security group of their own.
func endpointGroup(f *facts) {
	closed(f)
	g := nodeGroup()
	g.ID = "sg-ep"
	f.endpointGroups = known([]awsapi.SecurityGroup{g})
	for i := range f.vpc.value.Endpoints {
		if e := &f.vpc.value.Endpoints[i]; e.Interface {
			e.Groups = []string{"sg-ep"}
		}
	}
}

// second adds a NAT gateway that works.
func second(f *facts) {
	n := f.nats.value[0]
	n.ID = "nat-2"
	f.nats.value = append(f.nats.value, n)
}

// sample6 is the sample as an IPv6 cluster.
func sample6() *facts {
	f := sample()
	yes := true
	f.cluster.value.IPFamily, f.cluster.value.ServiceCIDR = ipv6, "fd00::/108"
	f.userData.value.Cluster.CIDR = "fd00::/108"
	f.vpc.value.IPv6, f.launch.value.IPv6Address = []string{"2001:db8::/56"}, &yes
	for i := range f.planeSubnets.value {
		s := &f.planeSubnets.value[i]
		s.IPv6, s.IPv6Addresses = []string{"2001:db8:0:1::/64", "2001:db8:0:2::/64"}[i], true
		s.Routes = append(over("nat-1"), awsapi.Route{To: "::/0", Via: "eigw-1"})
	}
	f.subnets.value = []awsapi.Subnet{f.planeSubnets.value[0]}
	for _, groups := range [][]awsapi.SecurityGroup{f.nodeGroups.value, f.planeGroups.value[1:]} {
		groups[0].Egress = []awsapi.Rule{{Protocol: "-1", CIDRs: []string{"0.0.0.0/0", "::/0"}}}
	}
	for i := range f.acls.value {
		for _, e := range f.acls.value[i].Entries[:2] {
			e.CIDR, e.Number = "::/0", 101
			f.acls.value[i].Entries = append(f.acls.value[i].Entries, e)
		}
	}
	return f
}
