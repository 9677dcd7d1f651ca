//go:build e2e && linux

package preflight

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// The networks in which nodes join.
const (
	nated    = "private subnets with NAT"
	isolated = "private subnets with endpoints"
	open6    = "IPv6 with NAT and an egress-only gateway"
	public   = "a public endpoint for the NAT gateway's address"
)

// isolate removes every way to the internet and makes the endpoints that nodes need.
func isolate(w *aws.World) {
	w.Route("rtb-1", "0.0.0.0/0")
	w.Route("rtb-main", "0.0.0.0/0")
	for _, service := range []string{"ec2", "ecr.api", "ecr.dkr", "s3", "sts", "ssm", "ssmmessages"} {
		w.Endpoint(service)
	}
}

// dualStack makes the sample an IPv6 cluster.
func dualStack(w *aws.World) {
	w.Clusters["my-cluster"]["kubernetesNetworkConfig"] = map[string]any{"ipFamily": "ipv6",
		"serviceIpv6Cidr": "fd00::/108"}
	w.IPv6()
}

// publish leaves only public access, for the NAT gateway's address.
func publish(w *aws.World) {
	w.Clusters["my-cluster"]["resourcesVpcConfig"] = map[string]any{
		"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-cluster", "endpointPublicAccess": true,
		"endpointPrivateAccess": false,
		"publicAccessCidrs":     []string{aws.NATAddress + "/32"},
	}
}

func vpc(w *aws.World, fields map[string]any) {
	all := map[string]any{"vpcId": "vpc-1", "clusterSecurityGroupId": "sg-cluster", "endpointPublicAccess": true,
		"endpointPrivateAccess": false}
	maps.Copy(all, fields)
	w.Clusters["my-cluster"]["resourcesVpcConfig"] = all
}

// networkWorlds lists worlds of networks. moto has no blackholes and no states of
// endpoints: Edit supplements them.
func networkWorlds() []scene {
	return []scene{
		{nated, "the NAT gateway failed", of(instance),
			edits("ec2:DescribeNatGateways", `(?s)(<natGatewayId>nat-1<.*?<state>)available<`, "${1}failed<"),
			"FAIL egress",
			"subnet-1 routes to nat-1, which is failed", ""},
		{nated, "the NAT gateway is in a private subnet", of(instance), func(w *aws.World) {
			w.NAT("nat-2", "subnet-2")
			w.Route("rtb-1", "0.0.0.0/0", "NatGatewayId", "nat-2")
		}, "FAIL egress", "nat-2, whose subnet subnet-2 routes to nat-1 instead of an internet gateway", ""},
		{nated, "the NAT gateway's subnet has no route", of(instance), func(w *aws.World) {
			subnet := w.Do("ec2:CreateSubnet", "VpcId", "vpc-1", "CidrBlock", "10.0.4.0/24", "AvailabilityZone",
				"eu-west-1a")
			w.Name("subnet-4", subnet, `<subnetId>(.*?)<`)
			w.Name("rtb-4", w.Do("ec2:CreateRouteTable", "VpcId", "vpc-1"), `<routeTableId>(.*?)<`)
			w.Do("ec2:AssociateRouteTable", "RouteTableId", "rtb-4", "SubnetId", "subnet-4")
			w.NAT("nat-2", "subnet-4")
			w.Route("rtb-1", "0.0.0.0/0", "NatGatewayId", "nat-2")
		}, "FAIL egress", "whose subnet subnet-4 has no route to an internet gateway", ""},
		{nated, "a private NAT gateway", of(instance), func(w *aws.World) {
			w.Name("nat-2", w.Do("ec2:CreateNatGateway", "SubnetId", "subnet-3", "ConnectivityType", "private"),
				`<natGatewayId>(.*?)<`)
			w.Route("rtb-1", "0.0.0.0/0", "NatGatewayId", "nat-2")
		}, "FAIL egress",
			"nat-2, a private NAT gateway without a public address, and its subnet subnet-3 routes to igw-1", ""},
		{nated, "a blackhole", of(instance),
			edits("ec2:DescribeRouteTables",
				`(?s)(<natGatewayId>nat-1</natGatewayId>\s*<origin>CreateRoute</origin>\s*<state>)active`,
				"${1}blackhole"),
			"FAIL egress", "(blackhole)", ""},
		{nated, "a transit gateway instead", of(instance), func(w *aws.World) {
			w.Name("tgw-1", w.Do("ec2:CreateTransitGateway", "Description", "d"), `<transitGatewayId>(.*?)<`)
			w.Route("rtb-1", "0.0.0.0/0", "TransitGatewayId", "tgw-1")
		}, "WARN egress", "subnet-1 routes to tgw-1, a transit gateway", ""},
		{nated, "the main route table decides, and has no route", of(instance), func(w *aws.World) {
			w.Route("rtb-main", "0.0.0.0/0")
			w.Edit("ec2:DescribeRouteTables", `<subnetId>subnet-1</subnetId>`, "")
		}, "FAIL egress", "subnet-1 has no route to the internet", ""},
		{nated, "a public subnet without public addresses", of(instance),
			routes("rtb-1", "0.0.0.0/0", "GatewayId", "igw-1"), "FAIL egress",
			"subnet-1 routes to igw-1, but its instances get no public address", ""},
		{nated, "an endpoint with a shut security group", of(instance),
			func(w *aws.World) {
				w.Endpoint("ecr.api", "SecurityGroupId.1", "sg-extra")
			}, "FAIL egress", "sg-extra of the endpoint vpce-ecr.api for com.amazonaws.eu-west-1.ecr.api let nothing " +
				"in to port 443 from sg-cluster", ""},
		{nated, "an S3 policy without ECR's bucket", of(instance), func(w *aws.World) {
			w.Endpoint("s3", "PolicyDocument",
				`{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::mine/*"}]}`)
		}, "FAIL egress", "does not allow s3:GetObject of arn:aws:s3:::prod-eu-west-1-starport-layer-bucket/layer", ""},
		{isolated, "S3 without the route", of(instance, isolate),
			does("ec2:ModifyVpcEndpoint", "VpcEndpointId", "vpce-s3", "RemoveRouteTableId.1", "rtb-1"), "FAIL egress",
			"the route table rtb-1 has no route to the endpoint vpce-s3", ""},
		{isolated, "no private DNS", of(instance, isolate),
			edits("ec2:DescribeVpcEndpoints",
				`(?s)<privateDnsEnabled>true(</privateDnsEnabled>\s*<serviceName>com.amazonaws.eu-west-1.sts)`,
				"<privateDnsEnabled>false$1"),
			"FAIL egress", "the name of com.amazonaws.eu-west-1.sts does not resolve to the endpoint vpce-sts", ""},
		{isolated, "an endpoint that waits", of(instance, isolate),
			edits("ec2:DescribeVpcEndpoints",
				`(?s)<state>available(</state>\s*<privateDnsEnabled>true</privateDnsEnabled>\s*`+
					`<serviceName>com.amazonaws.eu-west-1.ec2<)`, "<state>pendingAcceptance$1"),
			"FAIL egress", "is pendingAcceptance", ""},
		{isolated, "no Systems Manager", of(instance, isolate),
			does("ec2:DeleteVpcEndpoints", "VpcEndpointId.1", "vpce-ssm"), "WARN egress-ssm",
			"the VPC has no endpoint for com.amazonaws.eu-west-1.ssm", ""},
		{isolated, "DNS host names are off", of(instance, isolate),
			does("ec2:ModifyVpcAttribute", "VpcId", "vpc-1", "EnableDnsHostnames.Value", "false"), "FAIL vpc-dns",
			"DNS host names are off in vpc-1", ""},
		{isolated, "only public access", of(instance, isolate), func(w *aws.World) {
			vpc(w, nil)
		}, "FAIL endpoint-access",
			"private access is off, and subnet-1 has no route to the internet", ""},
		{nated, "a secondary block overlaps the services", of(instance),
			does("ec2:AssociateVpcCidrBlock", "VpcId", "vpc-1", "CidrBlock", "10.100.0.0/18"), "FAIL service-cidr",
			"overlaps 10.100.0.0/18 of vpc-1", ""},
		{nated, "a block is Docker's", of(instance),
			does("ec2:AssociateVpcCidrBlock", "VpcId", "vpc-1", "CidrBlock", "172.17.0.0/16"), "WARN service-cidr",
			"172.17.0.0/16 overlaps 172.17.0.0/16", ""},
		{nated, "a zone hides amazonaws.com", of(instance), func(w *aws.World) { w.Zone("amazonaws.com") },
			"FAIL private-zones", "hides ec2.eu-west-1.amazonaws.com", ""},
		{nated, "a zone with records", of(instance),
			func(w *aws.World) {
				w.Zone("ec2.eu-west-1.amazonaws.com", "ec2.eu-west-1.amazonaws.com")
			}, "OK private-zones", "ec2.eu-west-1.amazonaws.com has records of its own", ""},
		{nated, "STS is off in the region", of(instance),
			func(w *aws.World) {
				w.Fail("sts:GetCallerIdentity", 1, "RegionDisabledException", 403)
			}, "FAIL sts-region", "STS is off for your account in eu-west-1", ""},
		{open6, "no NAT gateway", of(template, dualStack), func(w *aws.World) { w.Route("rtb-1", "0.0.0.0/0") },
			"FAIL egress", "subnet-1 has no route to the internet", ""},
		{open6, "a security group for IPv4", of(template, dualStack),
			edits("ec2:DescribeSecurityGroups", `<cidrIpv6>::/0<`, "<cidrIpv6>2001:db8:ffff::/48<"),
			"FAIL security-group-nodes", "sg-cluster of the node let nothing out to port 53", ""},
		{nated, "an IPv6 cluster without IPv6", of(instance), func(w *aws.World) {
			w.Clusters["my-cluster"]["kubernetesNetworkConfig"] = map[string]any{"ipFamily": "ipv6",
				"serviceIpv6Cidr": "fd00::/108"}
		}, "FAIL subnet-ipv6", "neither subnet-1 nor vpc-1 has an IPv6 network", ""},
	}
}

// longID is the sample's instance with the form of AWS, which commands demand.
const longID = "i-0123456789abcdef0"

// exception says why commands that match a pattern are treated differently.
type exception struct{ pattern, why string }

// notRun lists the commands that a test cannot run.
func notRun() []exception {
	return []exception{
		{`kubectl `, "needs the Kubernetes API"},
		{`\bNODE-ROLE\b`, "the person names a new role"},
		{`\bIPV6-NETWORK\b`, "moto's IPv6 networks are random"},
		{`kms describe-key .*:666666666666:`, "moto has no keys of other accounts"},
		{`ec2 modify-vpc-endpoint .* --private-dns-enabled`, "moto ignores the option"},
	}
}

// notMended lists the commands after which moto still shows the finding.
func notMended() []exception {
	return []exception{
		{`ec2 create-launch-template-version`, "the new version is not the one that was checked"},
		{`ec2 associate-vpc-cidr-block`, "the subnet needs its part of the new network"},
	}
}

// filled replaces the words in capital letters that the sample has a name for.
func filled(command string) string {
	return strings.NewReplacer("PUBLIC-SUBNET", "subnet-3", "--role-name ROLE ", "--role-name node ").Replace(command)
}

// mender runs the printed commands of all worlds, each once.
type mender struct {
	eksnode string          // the folder of the built command
	done    map[string]bool // commands without their ids
	used    map[string]bool // patterns
	worlds  int             // that ran
	table   strings.Builder
}

func newMender(t *testing.T) *mender {
	t.Helper()
	m := &mender{eksnode: t.TempDir(), done: map[string]bool{}, used: map[string]bool{}}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", m.eksnode, "../../cmd/eksnode")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	testkit.Output(t, build)
	m.row("\nSET-UP | FAULT | EXPECTED | FOUND\n    CHECK: what its command did: the command\n")
	return m
}

func (m *mender) row(format string, args ...any) { fmt.Fprintf(&m.table, format, args...) }

// close prints the table. After all worlds, it fails for reasons without a command.
func (m *mender) close(t *testing.T, worlds int) {
	t.Helper()
	for _, r := range slices.Concat(notRun(), notMended()) {
		used := m.used[r.pattern] || m.worlds < worlds
		assert.True(t, used, "no printed command matches %s (%s); remove the line", r.pattern, r.why)
	}
	t.Log(m.table.String())
}

func (m *mender) why(list []exception, command string) string {
	for _, r := range list {
		if regexp.MustCompile(r.pattern).MatchString(command) {
			m.used[r.pattern] = true
			return r.why
		}
	}
	return ""
}

// numbers matches what differs between commands for the same fault.
var numbers = regexp.MustCompile(`\b(subnet|vpc|rtb|sg|i|lt|acl|nat|tgw|igw|vpce|ami|dopt)-[0-9a-z.]+|[0-9a-f-]{36}|\d+\.\d+\.\d+\.\d+/\d+`)

// looking matches the commands that change nothing.
var looking = regexp.MustCompile(`^(aws [a-z0-9]+ (describe|get|list|simulate|wait)[a-z0-9-]*( [^$&]*)?|aws configure list && aws sts get-caller-identity|eksnode [^|]*)$`)

// followAll runs the commands of a report's findings.
func (m *mender) followAll(t *testing.T, s scene, w *aws.World, target Target, first Report) {
	t.Helper()
	m.worlds++
	changed := false
	for _, f := range first.Findings {
		if f.Remedy == "" {
			continue
		}
		assert.NoError(t, cli.Check(f.Remedy, "eksnode", "kubectl", "packer", "sh"), f.Remedy)
		said := "ran before"
		switch key := f.Check + " " + numbers.ReplaceAllString(f.Remedy, "$1-ID"); {
		case m.why(notRun(), f.Remedy) != "":
			said = "refused: " + m.why(notRun(), f.Remedy)
		case m.done[key]:
		case looking.MatchString(f.Remedy):
			m.done[key] = true
			if changed {
				w, target = s.make(t)
				changed = false
			}
			said = "ran, looks only"
			m.look(t, w, f.Remedy)
		default:
			m.done[key] = true
			if changed {
				w, target = s.make(t)
			}
			changed = true
			said = m.mend(t, w, target, first, f)
		}
		m.row("    %s: %s: %s\n", f.Check, said, f.Remedy)
	}
}

// look runs a command that must only read.
func (m *mender) look(t *testing.T, w *aws.World, command string) {
	t.Helper()
	before := len(w.Calls())
	m.run(t, w, command)
	for _, c := range w.Calls()[before:] {
		assert.Regexp(t, "^(Describe|Get|List|Simulate)", c.Action, command)
	}
}

// mend runs the commands for a finding until it is gone or better. No other finding
// may come or get worse.
func (m *mender) mend(t *testing.T, w *aws.World, target Target, first Report, f Finding) string {
	t.Helper()
	known := worst(first)
	for times := 1; times < 12; times++ {
		command := f.Remedy
		if !m.run(t, w, filled(command)) {
			return "failed"
		}
		r := ask(t, target)
		for check, rank := range worst(r) {
			if before, checked := known[check]; checked { // a new role has checks of its own
				assert.LessOrEqual(t, rank, before, "%s is worse after %s: %s", check, command,
					finding(t, r, check).Evidence)
			}
		}
		i := slices.IndexFunc(r.Findings, func(other Finding) bool { return other.Check == f.Check })
		if i < 0 || ranks[r.Findings[i].Verdict] < ranks[f.Verdict] {
			return fmt.Sprintf("ran (%d), then %s", times, worstName(r, f.Check))
		}
		next := r.Findings[i]
		same := next.Remedy == command && next.Evidence == f.Evidence
		if same || m.why(notRun(), next.Remedy) != "" || looking.MatchString(next.Remedy) {
			why := m.why(notMended(), command)
			assert.NotEmpty(t, why, "%s: the command mended nothing: %s\n%s\nnext: %s", f.Check, command, next.Evidence,
				next.Remedy)
			return "ran; " + why
		}
		f = next
	}
	assert.Fail(t, "the commands do not end", f.Remedy)
	return "failed"
}

var ranks = map[Verdict]int{OK: 0, Warn: 1, Unknown: 2, Fail: 3}

// worst returns the rank of each check, also of those without a finding of their own.
func worst(r Report) map[string]int {
	all := map[string]int{}
	for _, f := range r.Findings {
		for _, check := range append([]string{f.Check}, f.Unchecked...) {
			all[check] = max(all[check], ranks[f.Verdict])
		}
	}
	return all
}

func worstName(r Report, check string) string {
	for v, rank := range ranks {
		if rank == worst(r)[check] {
			return string(v)
		}
	}
	return ""
}

// run runs a printed command. A command of eksnode runs here, and its output in the
// world when a shell reads it.
func (m *mender) run(t *testing.T, w *aws.World, command string) bool {
	t.Helper()
	if !strings.HasPrefix(command, "eksnode ") {
		_, err := w.Shell(command, nil)
		return assert.NoError(t, err)
	}
	w.Alias("i-1", longID)
	own, piped := strings.CutSuffix(strings.ReplaceAll(command, "--instance i-1", "--instance "+longID), " | sh")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", own)
	cmd.Env = append(os.Environ(), "PATH="+m.eksnode+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, _ := cmd.Output() // the exit code is the preflight's result
	if !assert.NotContains(t, errOut.String(), "eksnode: ", command) || !assert.NotEmpty(t, out, "%s: %s", command,
		errOut.String()) {
		return false
	}
	if piped {
		_, err := w.Shell(string(out), nil)
		return assert.NoError(t, err)
	}
	return true
}
