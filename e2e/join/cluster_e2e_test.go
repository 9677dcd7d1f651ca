//go:build e2e

package join_test

import (
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

//go:embed testdata/control-plane.yaml
var controlPlaneFlags string

//go:embed testdata/kubeadm.yaml
var kubeadmConfig string

// cluster is a control plane. While it runs, it approves the serving
// certificates of its nodes and initializes them, as EKS and the cloud
// controller manager do.
type cluster struct {
	name, role    string
	address       netip.Addr
	authenticator *join.Authenticator

	lab      *lab.Lab
	programs map[string]string
	folder   string // keys and logs
	memory   string // etcd's data
	daemons  map[string]*machine.Process
}

// patience bounds each wait for a healthy cluster and its nodes.
const patience = 2 * time.Minute

// startEtcd starts the etcd of all clusters of a lab. Each cluster has a prefix
// of its own.
func startEtcd(t *testing.T, l *lab.Lab, program, folder string) {
	t.Helper()
	c := &cluster{lab: l, folder: folder, memory: testkit.InMemory(t),
		programs: map[string]string{tools.NameEtcd: program},
		daemons:  map[string]*machine.Process{}}
	c.daemon(t, tools.NameEtcd)
}

const etcdURL = "http://127.0.0.1:2379"

// startCluster starts the API server of the n-th cluster of a lab, with its
// programs by name. The cluster accepts the nodes of one role.
func startCluster(t *testing.T, l *lab.Lab, n byte, name string, programs map[string]string, identities *join.Identities, folder string) *cluster {
	t.Helper()
	c := &cluster{
		name: name, role: "nodes-of-" + name, address: netip.AddrFrom4([4]byte{10, 78, 0, n}), lab: l, programs: programs,
		folder: filepath.Join(folder, name), daemons: map[string]*machine.Process{},
	}
	mine := func(role string) bool { return role == c.role }
	c.authenticator = &join.Authenticator{Cluster: name, Identities: identities, Admits: mine, Now: time.Now}
	require.NoError(t, os.MkdirAll(c.folder, 0o700))
	_, version, err := tools.Find(tools.NameKubeadm, "")
	require.NoError(t, err)
	config := strings.NewReplacer("{address}", c.address.String(), "{version}", "v"+version, "{folder}", c.folder).Replace(kubeadmConfig)
	require.NoError(t, os.WriteFile(c.path("kubeadm.yaml"), []byte(config), 0o600))
	for _, phase := range [][]string{{"certs", "all"}, {"kubeconfig", "all", "--kubeconfig-dir=" + c.folder}} {
		args := append([]string{"init", "phase", "--config=" + c.path("kubeadm.yaml")}, phase...)
		testkit.Output(t, l.Command(l.Ctx, programs[tools.NameKubeadm], args...))
	}
	require.NoError(t, l.AddAddress(l.Ctx, c.address))
	listener, err := l.Listen(l.Ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: c.authenticator}
	go func() { _ = server.Serve(listener) }() // it ends with the test
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	webhook := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "c", "cluster": {"server": "http://%s"}}], "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}
`, listener.Addr())
	require.NoError(t, os.WriteFile(c.path("authenticator.conf"), []byte(webhook), 0o600))
	c.daemon(t, tools.NameAPIServer)
	return c
}

// complete starts the rest of the control plane after its API server is ready.
func (c *cluster) complete(t *testing.T) {
	t.Helper()
	c.await(t, "get", "--raw=/readyz")
	// This binding lets the API server read from kubelets.
	c.must(t, "", "create", "clusterrolebinding", "kubeadm:cluster-admins", "--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins")
	// From 1.36 on, the certificate with which the API server calls kubelets names no group.
	c.must(t, "", "create", "clusterrolebinding", "kubelets", "--clusterrole=system:kubelet-api-admin", "--user=kube-apiserver-kubelet-client")
	c.daemon(t, tools.NameScheduler)
	c.daemon(t, tools.NameControllerManager)
	c.watch(t, "certificatesigningrequests", c.approve)
	c.watch(t, "nodes", c.initialize)
	// Pods need the default service account in their namespace.
	c.await(t, "get", "serviceaccount", "default")
}

func (c *cluster) path(name string) string { return filepath.Join(c.folder, name) }

func (c *cluster) endpoint() string { return "https://" + c.address.String() }

// authority is the cluster's certificate authority as EKS describes it.
func (c *cluster) authority() string {
	ca, err := os.ReadFile(c.path("ca.crt"))
	if err != nil {
		panic(err) // the cluster was started
	}
	return base64.StdEncoding.EncodeToString(ca)
}

// daemon starts one of the cluster's programs and writes its output to a log.
// The program ends with the test.
func (c *cluster) daemon(t *testing.T, name string) {
	t.Helper()
	var flags map[string][]string
	text := strings.NewReplacer("{memory}", c.memory, "{etcd}", etcdURL, "{address}", c.address.String(),
		"{endpoint}", c.endpoint(), "{name}", c.name, "{folder}", c.folder).Replace(controlPlaneFlags)
	require.NoError(t, yaml.Unmarshal([]byte(text), &flags))
	log, err := os.Create(c.path(name + ".log"))
	require.NoError(t, err)
	defer log.Close()
	cmd := c.lab.Command(context.Background(), c.programs[name], flags[name]...)
	cmd.Stdout, cmd.Stderr = log, log
	c.daemons[name], err = machine.Spawn(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.daemons[name].Kill()) })
}

// command prepares a program whose kubectl is the cluster's administrator.
func (c *cluster) command(ctx context.Context, stdin, program string, args ...string) *exec.Cmd {
	cmd := c.lab.Command(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "KUBECACHEDIR="+c.path("kubectl"), "KUBECONFIG="+c.path("super-admin.conf"),
		"PATH="+filepath.Dir(c.programs[tools.NameKubectl])+":"+os.Getenv("PATH"))
	return cmd
}

// kubectl runs kubectl and returns its output. An error contains kubectl's
// error output.
func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	var complaint strings.Builder
	cmd := c.command(ctx, stdin, c.programs[tools.NameKubectl], args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), err
}

// must runs a kubectl command that must succeed.
func (c *cluster) must(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, err := c.kubectl(c.lab.Ctx, stdin, args...)
	require.NoError(t, err)
	return out
}

// await runs kubectl until it succeeds.
func (c *cluster) await(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(c.lab.Ctx, 2*patience, fmt.Errorf("not within %s", 2*patience))
	defer cancel()
	var out string
	require.NoError(t, machine.PollEvery(ctx, time.Second, func() (err error) {
		for name, d := range c.daemons {
			if !d.Running() {
				return machine.Hopeless{Err: fmt.Errorf("%s has ended, see its log in %s: %w", name, c.folder, d.Exit())}
			}
		}
		out, err = c.kubectl(ctx, "", args...)
		return err
	}))
	return out
}

// watch calls a function for every object of a kind, and again for each change,
// until the test ends.
func (c *cluster) watch(t *testing.T, kind string, see func(ctx context.Context, text []byte) error) {
	ctx, stop := context.WithCancel(c.lab.Ctx)
	ended := make(chan struct{})
	t.Cleanup(func() { stop(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // the API server ends watches from time to time
			cmd := c.command(ctx, "", c.programs[tools.NameKubectl], "get", kind, "--watch", "--output=json")
			out, err := cmd.StdoutPipe()
			if err = errors.Join(err, cmd.Start()); err != nil {
				fmt.Fprintf(t.Output(), "%s: watching %s: %v\n", c.name, kind, err)
				return
			}
			var object json.RawMessage
			for objects := json.NewDecoder(out); objects.Decode(&object) == nil; {
				if err := see(ctx, object); err != nil && ctx.Err() == nil {
					fmt.Fprintf(t.Output(), "%s: seeing %s: %v\n", c.name, kind, err)
				}
			}
			_ = cmd.Wait() // kubectl was killed, or starts again
		}
	}()
}

// approve approves the nodes' requests for their own serving certificates. It
// denies requests with another node's name or address.
func (c *cluster) approve(ctx context.Context, text []byte) error {
	var request struct {
		Metadata struct{ Name string }
		Spec     struct {
			Request              []byte
			SignerName, Username string
		}
		Status struct{ Conditions []struct{ Type string } }
	}
	if err := json.Unmarshal(text, &request); err != nil || len(request.Status.Conditions) > 0 || request.Spec.SignerName != "kubernetes.io/kubelet-serving" {
		return err
	}
	verb, wrong := "approve", claims(request.Spec.Username, request.Spec.Request)
	if wrong != nil {
		verb = "deny"
	}
	_, err := c.kubectl(ctx, "", "certificate", verb, request.Metadata.Name)
	return errors.Join(wrong, err)
}

// claims returns an error when a request for a certificate claims more than its
// user's own name and address.
func claims(user string, request []byte) error {
	block, _ := pem.Decode(request)
	if block == nil {
		return fmt.Errorf("%s sends no PEM", user)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	name, isNode := strings.CutPrefix(user, "system:node:")
	foreign := func(dns string) bool { return dns != name }
	if !isNode || asked.Subject.CommonName != user || slices.ContainsFunc(asked.DNSNames, foreign) {
		return fmt.Errorf("%s requests %s, %q", user, asked.Subject.CommonName, asked.DNSNames)
	}
	for _, ip := range asked.IPAddresses {
		if address, _ := netip.AddrFromSlice(ip); lab.NodeName(address.Unmap()) != name {
			return fmt.Errorf("%s requests the address %s", user, ip)
		}
	}
	return nil
}

// initialize removes the taint of a node that waits for a cloud controller
// manager.
func (c *cluster) initialize(ctx context.Context, text []byte) error {
	const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	var n node
	err := json.Unmarshal(text, &n)
	if err == nil && slices.ContainsFunc(n.Spec.Taints, func(t taint) bool { return t.Key == uninitialized }) {
		_, err = c.kubectl(ctx, "", "taint", "node", n.Metadata.Name, uninitialized+"-")
	}
	return err
}
