//go:build linux && !agent

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// command runs eksnode with in as standard input.
func command(t *testing.T, in string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(quick(t.Context()), args, strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// exits runs eksnode, which must end with an exit code.
func exits(t *testing.T, want int, args ...string) (out, errOut string) {
	t.Helper()
	code, out, errOut := command(t, "", args...)
	require.Equal(t, want, code, "%q: %s%s", args, out, errOut)
	return out, errOut
}

// succeeds runs eksnode, and returns what it prints.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	out, _ := exits(t, 0, args...)
	return out
}

// unreachableAWS points the SDK to a server that only counts calls.
func unreachableAWS(t *testing.T) *atomic.Int64 {
	t.Helper()
	calls := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		out.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(server.Close)
	endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL": server.URL})
	return calls
}

func TestCommandsAreWrappedBetweenWords(t *testing.T) {
	const command = `a 'b  c' 'it'\''s one' d`
	for width := range 30 {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '%s\n' "+strings.Join(continued(command, width), "\n    ")).Output()
		require.NoError(t, err)
		assert.Equal(t, "a\nb  c\nit's one\nd\n", string(out), width)
	}
}

// Errors of wrong usage name the command, flag or argument, and the remedy. They
// come before any call to AWS.
func TestWrongUsageNamesTheRemedy(t *testing.T) {
	calls := unreachableAWS(t)
	for args, want := range map[string]string{
		"ami --keep 2":                        "eksnode: unknown flag: --keep; eksnode ami --help lists the flags",
		"ami retire ami-1":                    `eksnode ami retire takes no arguments such as "ami-1"; eksnode ami retire --help lists the flags`,
		"ami list --yes":                      "eksnode: unknown flag: --yes; eksnode ami list --help lists the flags",
		"ami delete":                          `eksnode: unknown command "delete" for "eksnode ami"; eksnode ami --help lists the commands`,
		"ami lst":                             `eksnode: unknown command "lst" for "eksnode ami"; did you mean list? eksnode ami --help lists the commands`,
		"ami diff a b c":                      `eksnode ami diff takes only two images or two manifests; "c" is one argument too many; eksnode ami diff --help shows the usage`,
		"ami publish":                         "eksnode ami publish needs an AMI ID; eksnode ami publish --help shows the usage",
		"ami publish ami-1":                   "eksnode: --parameter is missing; name the SSM parameter for the AMI ID, such as /my-node/stable",
		"ami publish ami-1 --parameter a:b":   `eksnode: --parameter: "a:b" is not a parameter name such as /my-node/stable`,
		"ami retire --older 3":                "eksnode: unknown flag: --older; did you mean --older-than? eksnode ami retire --help lists the flags",
		"ami retire --keep":                   "eksnode: --keep needs a value; eksnode ami retire --help lists the flags",
		"manifests --cluster c --role a/node": `eksnode: --role: "a/node" is not a role's ARN such as arn:aws:iam::123456789012:role/node`,
		"preflight --cluster c --ami ami-0123456789abcdef0 --role a/node": `eksnode: --role: "a/node" is not a role's ARN such as arn:aws:iam::123456789012:role/node`,
		"manifests":             "eksnode: --cluster is missing; set the name of the EKS cluster\n--role is missing; set the name or ARN of the nodes' IAM role",
		"manifests --cluster c": "eksnode: --role is missing; set the name or ARN of the nodes' IAM role",
		"ami promote --from /a": "eksnode: --to is missing; set the SSM parameter to write",
		"userdata render --family debain --cluster c":                                                `eksnode: --family: user data of the family "debain" is not known; known are karpenter, eksctl, windows, al2023, ubuntu, bottlerocket, al2`,
		"userdata render --family al2024 --cluster c":                                                `eksnode: --family: user data of the family "al2024" is not known; known are karpenter, eksctl, windows, al2023, ubuntu, bottlerocket, al2; did you mean al2023?`,
		"manifests --cluster c --role arn:aws:iam::123456789012:role/node --instance-type m7i.large": "eksnode: --instance-type has no effect without --ami",
		"userdata check x --cluster c":                                                               "eksnode: unknown flag: --cluster; eksnode userdata check --help lists the flags",
		"userdata check":                                                                             "eksnode userdata check needs a file with user data; eksnode userdata check --help shows the usage",
		"userdata verify":                                                                            `eksnode: unknown command "verify" for "eksnode userdata"; eksnode userdata --help lists the commands`,
		"userdata render --family al2023 --output yaml":                                              `eksnode: --output: "yaml" is not known; known: json, text`,
		"userdata render --family al2 --description x --label a=b":                                   "eksnode: --label has no effect without --cluster",
		"auditt":              `eksnode: unknown command "auditt" for "eksnode"; did you mean audit? eksnode --help lists the commands`,
		"help auditt":         `eksnode: unknown command "auditt" for "eksnode"; did you mean audit? eksnode --help lists the commands`,
		"help ami lst":        `eksnode: unknown command "lst" for "eksnode ami"; did you mean list? eksnode ami --help lists the commands`,
		"completion":          "eksnode completion needs a shell (bash, zsh, fish, powershell); eksnode completion --help shows the usage",
		"completion tcsh":     `eksnode completion: "tcsh" is not known; known: bash, zsh, fish, powershell`,
		"completion bash zsh": `eksnode completion takes only a shell (bash, zsh, fish, powershell); "zsh" is one argument too many; eksnode completion --help shows the usage`,
	} {
		out, errOut := exits(t, 2, strings.Fields(args)...)
		assert.Empty(t, out, args)
		assert.Equal(t, want+"\n", errOut, args)
	}
	assert.Zero(t, calls.Load())
}

// Missing credentials, or no connection to AWS, is one error instead of one per
// check.
func TestMissingCredentialsOrConnectionIsOneError(t *testing.T) {
	unreachableAWS(t)
	preflight := []string{"preflight", "--cluster", "my-cluster", "--ami", "ami-0123456789abcdef0"}
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		out, errOut := exits(t, 2, preflight...)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: ")
	})
	t.Run("no connection", func(t *testing.T) {
		t.Setenv("AWS_MAX_ATTEMPTS", "1")
		out, errOut := exits(t, 2, append(preflight, "--endpoint", "http://127.0.0.1:1")...)
		assert.Empty(t, out)
		assert.Contains(t, errOut, "eksnode: reading the caller's identity: ")
		assert.Contains(t, errOut, "connection refused")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut bytes.Buffer
		assert.Equal(t, 2, run(ctx, preflight, strings.NewReader(""), &out, &errOut))
		assert.Empty(t, out.String())
		assert.Contains(t, errOut.String(), "eksnode: interrupted\n")
	})
}

func TestAMIDiffComparesManifests(t *testing.T) {
	one, two := t.TempDir()+"/one.json", t.TempDir()+"/two.json"
	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.3","packages":[{"name":"runc","version":"1"}],"units":[{"name":"a","enabled":true}]}`), 0o600))
	require.NoError(t, os.WriteFile(two, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.4","assets":[{"id":"kubelet","version":"1.34.4","sha256":"ab"}],"units":[{"name":"a","enabled":false}]}`), 0o600))
	_, out, _ := command(t, "", "ami", "diff", one, two)
	assert.Equal(t, "+ asset kubelet: 1.34.4 ab\n~ kubernetes: 1.34.3 -> 1.34.4\n- package runc: 1\n~ unit a: starts at boot -> is started by the first boot\n4 differences between "+one+" and "+two+"\n", out)
	_, out, _ = command(t, "", "ami", "diff", one, two, "--output", "json")
	assert.JSONEq(t, `[{"fact": "asset kubelet", "before": null, "after": "1.34.4 ab"}, {"fact": "kubernetes", "before": "1.34.3", "after": "1.34.4"},
		{"fact": "package runc", "before": "1", "after": null}, {"fact": "unit a", "before": "starts at boot", "after": "is started by the first boot"}]`, out)

	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"x"}`), 0o600))
	_, _, errOut := command(t, "", "ami", "diff", one, two)
	assert.Contains(t, errOut, `the schema is "x", not eksnode.image/v1`)
	_, _, errOut = command(t, "", "ami", "diff", one)
	assert.Equal(t, "eksnode ami diff needs two images or two manifests; eksnode ami diff --help shows the usage\n", errOut)
}

// Flags that do not fit together are refused before any call, by their names.
func TestPreflightRefusesFlagsThatDoNotFit(t *testing.T) {
	calls := unreachableAWS(t)
	auto := filepath.Join(t.TempDir(), "auto.yaml")
	require.NoError(t, os.WriteFile(auto, []byte("apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: auto}\n"), 0o600))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--cluster is missing; set the name of the EKS cluster\n", []string{"--ami", "ami-0123456789abcdef0"}},
		{"the nodes are missing; use one of --instance, --launch-template, --nodegroup, --nodeclass and --ami\n", []string{"--cluster", "x"}},
		{"--launch-template-version has no effect without --launch-template\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--launch-template-version", "3"}},
		{"--launch-template-version has no effect without --launch-template\n", []string{"--cluster", "x", "--nodegroup", "workers", "--launch-template-version", "3"}},
		{"--output: \"xml\" is not known; known: json, junit, sarif, text\n", []string{"--output", "xml"}},
		{"reading aws-auth: open nowhere: no such file or directory\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--aws-auth", "nowhere"}},
		{"reading the EC2NodeClass: open nowhere: no such file or directory\n", []string{"--cluster", "x", "--nodeclass", "nowhere"}},
		{"--nodegroup and --ami exclude each other; use one of them\n", []string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--nodegroup", "workers"}},
		{"--instance and --launch-template and --nodeclass exclude each other; use one of them\n", []string{"--cluster", "x", "--nodeclass", "-", "--instance", "i-0123456789abcdef0", "--launch-template", "nodes"}},
		{"--role and --nodegroup exclude each other: a node group names its own\n", []string{"--cluster", "x", "--nodegroup", "workers", "--role", "node"}},
		{"--subnet and --nodegroup exclude each other: a node group names its own\n", []string{"--cluster", "x", "--nodegroup", "workers", "--subnet", "subnet-0123456789abcdef0"}},
		{"--role and --nodeclass exclude each other: an EC2NodeClass names its own\n", []string{"--cluster", "x", "--nodeclass", "-", "--role", "node"}},
		{"--nodeclass and --aws-auth cannot both read standard input; pass a file for one of them\n", []string{"--cluster", "x", "--nodeclass", "-", "--aws-auth", "-"}},
		{"standard input: the manifest is empty; `kubectl get ec2nodeclass NAME -o yaml` prints it\n", []string{"--cluster", "x", "--nodeclass", "-"}},
		{auto + ":1: kind: auto is a NodeClass of EKS Auto Mode, which runs only AWS's own images; your own images need Karpenter's EC2NodeClass (karpenter.k8s.aws/v1) or a node group\n", []string{"--cluster", "x", "--nodeclass", auto}},
		{"--nodegroup: \"a b\" is not a node group's name such as my-nodes: a name has letters, digits, dashes and underscores, and begins with a letter or a digit\n", []string{"--cluster", "x", "--nodegroup", "a b"}},
		{"--role: \"arn:aws:iam::123456789012:instance-profile/node\" is not a role's ARN such as arn:aws:iam::123456789012:role/node: the text names an instance profile; `aws iam get-instance-profile --instance-profile-name node` prints its role\n",
			[]string{"--cluster", "x", "--ami", "ami-0123456789abcdef0", "--role", "arn:aws:iam::123456789012:instance-profile/node"}},
	} {
		code, out, errOut := command(t, "", append([]string{"preflight"}, c.args...)...)
		assert.Equal(t, 2, code, c.args)
		assert.Empty(t, out, c.args)
		assert.Equal(t, "eksnode: "+c.want, errOut, c.args)
	}
	assert.Zero(t, calls.Load())
}

// blackHole is an address that never completes a connection: the queue of a
// listener without an accept is full, so the kernel drops further attempts.
func blackHole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	for {
		c, err := net.DialTimeout("tcp", address.String(), 100*time.Millisecond)
		if err != nil {
			return address.String()
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// silent accepts connections, and closes none before the test ends.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	return listener.Addr().String()
}

// closed is an address on which nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// A connection that cannot be made ends every command after a few seconds, with one
// line that names the host and the reason. The commands run as processes, because
// Go reads the proxy of the environment only once.
func TestConnectionsThatCannotBeMadeEndSoon(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	t.Cleanup(secure.Close)
	refuses := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(refuses.Close)
	for name, c := range map[string]struct {
		endpoint string
		env      []string
		want     string
	}{
		"nothing listens":        {"http://" + closed(t), nil, "connect: connection refused"},
		"a black hole":           {"http://" + blackHole(t), nil, "no response within 2s"},
		"a black hole with TLS":  {"https://" + blackHole(t), nil, "no response within 2s"},
		"no response":            {"http://" + silent(t), nil, "no response within 4.5s"},
		"no TLS handshake":       {"https://" + silent(t), nil, "TLS: no response within 2s"},
		"no TLS":                 {"https://" + plain.Listener.Addr().String(), nil, "the server does not use TLS"},
		"an unknown certificate": {secure.URL, nil, "certificate signed by unknown authority"},
		"a name without address": {"https://sts.eu-west-9.amazonaws.invalid", nil, "sts.eu-west-9.amazonaws.invalid"},
		"a closed proxy":         {"https://sts.example", []string{"HTTPS_PROXY=http://" + closed(t)}, "connecting to the proxy: "},
		"a proxy that refuses":   {"https://sts.example", []string{"HTTPS_PROXY=" + refuses.URL}, "the proxy refused the connection: Forbidden; check HTTPS_PROXY and NO_PROXY"},
		"a silent proxy":         {"https://sts.example", []string{"HTTPS_PROXY=http://" + silent(t)}, "no response within 4.5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, args := range []string{
				"preflight --cluster c --ami ami-0123456789abcdef0", "userdata render --family al2023 --cluster c",
			} {
				out, errOut := process(t, append(c.env, "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret"), args+" --endpoint "+c.endpoint)
				assert.Empty(t, out)
				assert.Contains(t, errOut, " is not reachable: ")
				assert.Contains(t, errOut, c.want)
				assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
			}
		})
	}
}

// process runs eksnode as a process, which must fail within seconds.
func process(t *testing.T, env []string, args string) (out, errOut string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second) // 5 on an idle machine
	defer cancel()
	file, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, file, strings.Fields(args)...)
	cmd.Args[0] = "eksnode"
	cmd.Env = append([]string{
		"AWS_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true", "HOME=/nonexistent",
	}, env...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	var ended *exec.ExitError
	require.ErrorAs(t, err, &ended)
	require.NoError(t, ctx.Err(), "the command must end by itself: %s", e.String())
	assert.Equal(t, 2, ended.ExitCode())
	return o.String(), e.String()
}

func TestAnswersThatAreNotFromAWS(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>a proxy's page</html>", status)
		}))
		t.Cleanup(page.Close)
		for _, args := range []string{"preflight --cluster c --ami ami-0123456789abcdef0", "ami list"} { // JSON and XML
			_, errOut := process(t, []string{"AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret", "AWS_MAX_ATTEMPTS=1", "AWS_ENDPOINT_URL=" + page.URL}, args)
			assert.Contains(t, errOut, fmt.Sprintf("the answer is HTTP %d without an error of AWS; check the endpoint, and proxies on the way\n", status))
			assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
		}
	}
}

// Without credentials, eksnode waits for the instance metadata service only for a moment.
func TestNoCredentialsOnAWorkstationIsKnownSoon(t *testing.T) {
	for _, address := range []string{blackHole(t), silent(t), closed(t)} {
		_, errOut := process(t, []string{"AWS_EC2_METADATA_DISABLED=", "AWS_EC2_METADATA_SERVICE_ENDPOINT=http://" + address}, "ami list")
		assert.Contains(t, errOut, "eksnode: credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: ")
		assert.Equal(t, 1, strings.Count(errOut, "\n"), errOut)
	}
}

// An interrupt ends a command that waits for a response.
func TestAnInterruptEndsAWaitingCommand(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
		_, _ = io.Copy(io.Discard, in.Body) // otherwise the server does not see the end of the connection
		asked <- struct{}{}
		<-in.Context().Done()
	}))
	t.Cleanup(server.Close)
	file, err := os.Executable()
	require.NoError(t, err)
	for _, args := range []string{"ami list", "preflight --cluster c --ami ami-0123456789abcdef0", "manifests --cluster c --role arn:aws:iam::123456789012:role/node"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, file, append(strings.Fields(args), "--endpoint", server.URL)...)
		cmd.Args[0] = "eksnode"
		cmd.Env = []string{"AWS_REGION=eu-west-1", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		require.NoError(t, cmd.Start())
		select {
		case <-asked:
		case <-ctx.Done():
		}
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.Error(t, cmd.Wait())
		require.NoError(t, ctx.Err(), "the command must end by itself")
		assert.Equal(t, 1, strings.Count(errOut.String(), "\n"), errOut.String())
	}
}
