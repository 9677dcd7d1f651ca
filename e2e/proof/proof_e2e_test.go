//go:build e2e && linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var kills = flag.Int("kills", 2, "how often TestKilledProofsLeaveNothing kills a run")

// TestMain is also the program, in a process of its own that a test can kill.
func TestMain(m *testing.M) {
	if os.Getenv("EKSNODE_TEST_PROOF") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(aws.Alone(func() int {
		folder, err := os.MkdirTemp("", "proof")
		if err == nil {
			defer os.RemoveAll(folder)
			tools = folder
			err = build(folder)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

const testRun = "test"

// double is AWS for a run.
func double(t *testing.T) *aws.World {
	t.Helper()
	w, _ := aws.NewWithEBS(t)
	w.Prompt("the scripts are those of a person")
	serveKube(t, w)
	// The console of an instance of a role that the cluster does not let in is that of a kubelet
	// which is refused.
	w.Before("ec2:GetConsoleOutput", func() {
		said := "[    0.000000] Linux version 6.12.57+deb13-amd64\n"
		if _, stranger := running(w); stranger {
			said = `kubelet[1]: "Unable to register node with API server" err="Unauthorized" node="ip-10-97-0-4"` + "\n"
		}
		w.Answer("ec2:GetConsoleOutput", "<R><output>"+base64.StdEncoding.EncodeToString([]byte(said))+"</output></R>")
	})
	return w
}

// tools is the folder of the command eksnode, and of a disk of 64 MiB that passes as a
// node's, and as what the command's build makes: real builds have tests of their own.
var tools string

//go:embed testdata/tools.sh
var toolsScript string

func build(folder string) error {
	cmd := exec.Command("sh", "-ec", toolsScript, folder)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

func testOptions(t *testing.T) options {
	t.Helper()
	return options{
		region: aws.Region, other: "us-east-1", run: testRun, disk: tools + "/disk.raw", eksnode: tools + "/eksnode", folder: t.TempDir(),
		yes: true, family: "ipv4", repository: "../..",
		share: "210987654321", skip: "not-a-node,can-join,changed-files,assets,units", settle: "0", console: "0",
		patience: "60", pause: 10 * time.Millisecond, kubernetes: "1.34.4", base: "debian-13",
	}
}

// all is everything that a run can leave, as moto and the doubles list it by themselves.
func all(w *aws.World) []string {
	list := w.Inventory(aws.Region, "us-east-1")
	for _, one := range []struct{ action, parameter, pattern string }{
		{"ec2:DescribeVpcs", "", `<vpcId>(.*?)<`}, {"ec2:DescribeSubnets", "", `<subnetId>(.*?)<`}, {"ec2:DescribeInternetGateways", "", `<internetGatewayId>(.*?)<`},
		{"ec2:DescribeLaunchTemplates", "", `<launchTemplateId>(.*?)<`}, {"iam:ListRoles", "", `<RoleName>(.*?)<`},
		{"iam:ListInstanceProfiles", "", `<InstanceProfileName>(.*?)<`}, {"iam:ListPolicies", "", `<Arn>(.*?:policy/eksnode.*?)<`},
		{"eks:GET /clusters", "", `"clusters": *\[(.*?)\]`},
		{"ssm:DescribeParameters", "{}", `"Name": *"(/eksnode.*?)"`},
	} {
		var parameters []string
		if one.parameter != "" {
			parameters = append(parameters, one.parameter)
		}
		for _, region := range []string{aws.Region, "us-east-1"} {
			answer := string(w.DoIn(region, one.action, parameters...))
			for _, found := range regexp.MustCompile(one.pattern).FindAllStringSubmatch(answer, -1) {
				list = append(list, one.action+" "+region+" "+found[1])
			}
		}
	}
	return append(list, slices.Sorted(maps.Keys(w.Entries))...)
}

// proven runs the program in this process and returns its output, error and report.
func (o options) proven(ctx context.Context, t *testing.T) (string, report, error) {
	t.Helper()
	var out bytes.Buffer
	err := o.main(ctx, strings.NewReader("no\n"), &out)
	var r report
	if text, missing := os.ReadFile(filepath.Join(o.folder, "report.json")); missing == nil {
		c := jsonschema.NewCompiler()
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(schema()))
		require.NoError(t, err)
		require.NoError(t, c.AddResource("report", document))
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, c.MustCompile("report").Validate(value))
		require.NoError(t, json.Unmarshal(text, &r))
		assert.NotContains(t, string(text), aws.Account)
		assert.NotContains(t, string(text), "secret")
	}
	return out.String(), r, err
}

// Each permission of the policy, removed once, is named before anything is created.
func TestEachPermissionIsNamedFirst(t *testing.T) {
	w := double(t)
	o := testOptions(t)
	least, err := policy(o.eksnode, o.repository, steps)
	require.NoError(t, err)
	w.Deny("ec2:CreateVpc")
	_, _, err = o.proven(t.Context(), t)
	require.ErrorContains(t, err, "nothing was created: your policies do not allow ec2:CreateVpc on all resources")
	w.Heal()
	p, err := o.open(t.Context(), o.eksnode, io.Discard)
	require.NoError(t, err)
	require.NoError(t, p.check(t.Context(), least))
	for _, action := range actions(t, least) {
		if action == "iam:SimulatePrincipalPolicy" { // then nothing is checked
			continue
		}
		w.Deny(action)
		require.EqualError(t, p.check(t.Context(), least),
			"your policies do not allow "+action+" on all resources; UNCHECKED=1 runs without this check")
		w.Heal()
	}
	for action := range w.Count() {
		assert.Contains(t, []string{"sts:GetCallerIdentity", "ec2:DescribeRegions", "iam:SimulatePrincipalPolicy"}, action)
	}
}

// Every permission that is missing is named, also with UNCHECKED=1, and nothing stays.
func TestMissingPermissionsAreNamed(t *testing.T) {
	w := double(t)
	before := all(w)
	o := testOptions(t)
	o.unchecked = true
	for _, c := range []struct{ action, only, also string }{
		{"ec2:DescribeRegions", "network", ""}, {"ec2:CreateVpc", "network", ""}, {"ec2:CreateSubnet", "network", ""}, {"ec2:ModifySubnetAttribute", "network", ""},
		{"iam:CreateRole", "cluster", ""}, {"eks:CreateCluster", "cluster", ""}, {"iam:CreateInstanceProfile", "role", ""}, {"eks:CreateAccessEntry", "role", ""},
		{"ec2:RegisterImage", "import", ""}, {"ssm:PutParameter", "publish", ""}, {"ec2:RunInstances", "launch", ""},
		// Without these, something stays until `make aws-clean`.
		{"ec2:DeleteVpc", "network", "VPC vpc-"}, {"iam:DeleteRole", "role", "role eksnode-proof-test"}, {"ec2:DescribeSnapshots", "disk", "snapshot in us-east-1: listing"},
	} {
		o.folder, o.only = t.TempDir(), c.only
		w.Deny(c.action)
		_, r, err := o.proven(t.Context(), t)
		_, operation, _ := strings.Cut(c.action, ":")
		if assert.ErrorContains(t, err, operation, c.action) {
			assert.Contains(t, err.Error(), c.also)
			assert.Equal(t, c.also != "", len(r.Left) > 0, "%s: %q", c.action, r.Left)
		}
		w.Heal()
		if c.also != "" {
			cleaned := o
			cleaned.clean = true
			require.NoError(t, cleaned.main(t.Context(), nil, io.Discard))
		}
		assert.Equal(t, before, all(w), c.action)
	}
}

// A wrong account, an unknown region, and a person who says no: nothing is created.
func TestNothingIsCreatedUnasked(t *testing.T) {
	w := double(t)
	o := testOptions(t)
	for want, change := range map[string]func(*options){
		"the credentials are of the account 123456789012, not of 210987654321": func(o *options) { o.account = "210987654321" },
		`the IP family "ipv5" is neither ipv4 nor ipv6`:                        func(o *options) { o.family = "ipv5" },
		"the account to share an AMI with: ":                                   func(o *options) { o.share = "build/share" },
		"nothing was created":                                                  func(o *options) { o.yes = false },
		"the region is missing":                                                func(o *options) { o.region = "" },
		"the account cannot use the region eu-wset-1":                          func(o *options) { o.other = "eu-wset-1" },
		"the region for copies is eu-west-1 too":                               func(o *options) { o.other = aws.Region },
		"there is no step \"imports\"":                                         func(o *options) { o.only = "imports" },
	} {
		wrong := o
		change(&wrong)
		_, _, err := wrong.proven(t.Context(), t)
		require.ErrorContains(t, err, want)
	}
	for action := range w.Count() {
		assert.Contains(t, []string{"sts:GetCallerIdentity", "ec2:DescribeRegions", "iam:SimulatePrincipalPolicy"}, action)
	}
}

// Ctrl-C ends the step and tears everything down. A killed run goes on where it was.
func TestAnInterruptedProof(t *testing.T) {
	w := double(t)
	before := all(w)
	o := testOptions(t)
	o.only = "role"
	w.MayRefuse() // the double loses the caller
	ctx, cancel := context.WithCancelCause(t.Context())
	w.Before("eks:CreateCluster", func() { cancel(errors.New("interrupted")) })
	_, r, err := o.proven(ctx, t)
	require.ErrorContains(t, err, "the step cluster: interrupted")
	assert.Contains(t, r.Steps[1].ByHand, "\naws eks create-cluster ")
	assert.Equal(t, before, all(w))

	w.Before("eks:CreateCluster", func() {})
	w.Fail("ec2:CreateSubnet", 2, "InvalidVpcID.NotFound", http.StatusBadRequest) // seen late
	first := o
	first.share, first.patience = "", "61"
	p, err := first.open(t.Context(), o.eksnode, io.Discard)
	require.NoError(t, err)
	network, err := chosen([]string{"network"}, nil)
	require.NoError(t, err)
	require.NoError(t, p.run(t.Context(), network)) // and then the process is killed
	made := w.Count()["ec2:CreateVpc"]
	for want, change := range map[string]func(*options){
		`has the region "eu-west-1", not "us-east-1"`: func(o *options) { o.region, o.other = "us-east-1", aws.Region },
		`has the cluster "", not "mine"`:              func(o *options) { o.cluster = "mine" },
	} {
		elsewhere := o
		change(&elsewhere)
		_, _, err = elsewhere.proven(t.Context(), t)
		assert.ErrorContains(t, err, want+": run `make aws-clean` there first")
	}
	again := o
	again.disk, again.run = "", "other"
	next, err := again.open(t.Context(), o.eksnode, io.Discard)
	require.NoError(t, err)
	require.NoError(t, next.load())
	for name, want := range map[string]string{
		"share": o.share, "patience": o.patience, // as given now
		"disk": o.disk, "run": testRun, "mine": testRun, "vpc": p.state.Vars["vpc"], // of the interrupted run
	} {
		assert.Equal(t, want, next.state.Vars[name], name)
	}
	_, _, err = o.proven(t.Context(), t)
	require.NoError(t, err)
	assert.Equal(t, made, w.Count()["ec2:CreateVpc"], "the network is not made again")
	assert.Equal(t, before, all(w))
}

// A node that never joins ends the step, and its instance.
func TestANodeThatNeverJoins(t *testing.T) {
	w := double(t)
	w.APIServer = "https://127.0.0.1:1"
	before := all(w)
	o := testOptions(t)
	o.only, o.patience = "launch", "1"
	_, r, err := o.proven(t.Context(), t)
	require.ErrorContains(t, err, "waited for 1 seconds in vain")
	assert.Equal(t, failed, r.Result)
	assert.Equal(t, before, all(w))
}

// theirs makes a cluster that the run did not make.
func theirs(w *aws.World) string {
	const name = "theirs"
	w.Do("eks:POST /clusters", `{"name":"`+name+`","version":"1.34","roleArn":"arn:aws:iam::`+aws.Account+
		`:role/cluster","resourcesVpcConfig":{"subnetIds":["subnet-1"]}}`)
	w.Clusters[name] = map[string]any{"accessConfig": map[string]any{"authenticationMode": "API"}}
	return name
}

// Another cluster of the account is not touched.
func TestAnotherClusterOfTheAccount(t *testing.T) {
	w := double(t)
	other := theirs(w)
	o := testOptions(t)
	o.only = "role"
	_, _, err := o.proven(t.Context(), t)
	require.NoError(t, err)
	entry := testkit.Content(t, filepath.Join(o.folder, "access-entry.sh"))
	assert.Contains(t, entry, "--cluster-name eksnode-proof-test ")
	assert.NotContains(t, entry, other)
}

// What a person repeats by hand runs with the real AWS CLI, and lists what the run lists, also
// what a killed packer leaves.
func TestScriptsRunWithTheAWSCLI(t *testing.T) {
	w := double(t)
	before := all(w)
	o := testOptions(t)
	o.family = "ipv6"
	p, err := o.open(t.Context(), "", io.Discard)
	require.NoError(t, err)
	const killed = `aws ec2 create-key-pair --key-name packer_1 --tag-specifications "$(tags key-pair)"
aws ec2 create-security-group --group-name packer_1 --description packer --vpc-id "$vpc" \
  --tag-specifications "$(tags security-group)"`
	out, err := w.Shell(byHand(p.state.Vars, steps[0].Script+killed), nil)
	require.NoError(t, err, out)
	for _, k := range kinds {
		if !slices.Contains([]string{"VPC", "subnet", "key pair", "security group", "instance", "role", "AMI"}, k.Name) {
			continue
		}
		ours, err := p.shell(t.Context(), k.List, nil)
		require.NoError(t, err)
		theirs, err := w.Shell(byHand(p.state.Vars, k.List), nil)
		require.NoError(t, err)
		assert.Equal(t, strings.Fields(theirs), strings.Fields(ours), k.Name)
	}
	require.NotEqual(t, before, all(w))
	require.NoError(t, p.clean(t.Context()))
	assert.Equal(t, before, all(w))
}

// A run is killed at random moments. The next `make aws-clean` leaves the account as before.
func TestKilledProofsLeaveNothing(t *testing.T) { killed(t, *kills) }

func killed(t *testing.T, times int) {
	w := double(t)
	w.MayRefuse() // the double loses the caller
	before := all(w)
	o := testOptions(t)
	longest := 40 * time.Second
	for n := range times {
		o.folder = t.TempDir()
		cmd := exec.Command("/proc/self/exe", "-region", o.region, "-run", o.run, "-disk", o.disk, "-eksnode", o.eksnode, "-folder", o.folder, "-yes",
			"-skip-rules", o.skip, "-settle", "0", "-console", "0", "-pause", "10ms", "-kubernetes", o.kubernetes)
		cmd.Env = append(os.Environ(), "EKSNODE_TEST_PROOF=1")
		require.NoError(t, cmd.Start())
		moment := time.Duration(rand.Int64N(int64(longest)))
		end := time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or done before
		end.Stop()
		left := len(all(w)) - len(before)
		cleaned := o
		cleaned.clean = true
		require.NoError(t, cleaned.main(t.Context(), nil, io.Discard))
		assert.Equal(t, before, all(w), "kill %d after %s", n, moment)
		t.Logf("killed after %s: %d resources to delete", moment.Round(time.Millisecond), left)
	}
}
