//go:build linux

package bootstrap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// TestMain lets the binary replace the machine's programs; its name selects the program.
func TestMain(m *testing.M) {
	switch name := filepath.Base(os.Args[0]); name {
	case "systemctl", "ctr", "mount", "kubelet", "containerd", "setup-local-disks", "ecr-credential-provider":
		if err := program(name, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.EnterRoot()
	os.Exit(m.Run())
}

// Folders in which the programs record their calls and state.
const (
	callsFile  = "/fake/calls"
	unitFolder = "/fake/units"
	imageList  = "/fake/images"
	failFile   = "/fake/fail"
)

// program imitates one of the machine's programs.
func program(name string, args []string) error {
	call := name + " " + strings.Join(args, " ")
	calls, err := os.OpenFile(callsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(calls, call); err != nil {
		return err
	}
	if err := calls.Close(); err != nil {
		return err
	}
	if fails, err := os.ReadFile(failFile); err == nil && strings.Contains(call, string(fails)) {
		return errors.New("this call must fail")
	}
	switch name {
	case "systemctl":
		return systemctlProgram(args)
	case "ctr":
		return ctrProgram(args)
	case "ecr-credential-provider":
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
		fmt.Println(`{"auth": {"x": {"username": "AWS", "password": "secret"}}}`)
	}
	return nil
}

func systemctlProgram(args []string) error {
	verb, units := args[0], args[1:]
	if verb == "show" {
		for _, u := range units {
			if strings.HasPrefix(u, "--") {
				continue
			}
			state := unitFile(u, "active")
			state = cmp.Or(state, "inactive")
			load, enabled := "loaded", "disabled"
			if unitFile(u, "missing") != "" {
				load = "not-found"
			}
			if unitFile(u, "enabled") != "" {
				enabled = "enabled"
			}
			fmt.Printf("Id=%s\nLoadState=%s\nActiveState=%s\nUnitFileState=%s\nNeedDaemonReload=no\n\n", u, load, state, enabled)
		}
		return nil
	}
	for _, u := range units {
		var err error
		switch verb {
		case "start", "restart":
			err = os.WriteFile(filepath.Join(unitFolder, u+".active"), []byte("active"), 0o644)
		case "stop":
			err = os.Remove(filepath.Join(unitFolder, u+".active"))
		case "enable":
			err = os.WriteFile(filepath.Join(unitFolder, u+".enabled"), []byte("x"), 0o644)
		case "disable":
			err = os.Remove(filepath.Join(unitFolder, u+".enabled"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unitFile(unit, what string) string {
	text, err := os.ReadFile(filepath.Join(unitFolder, unit+"."+what))
	if err != nil {
		return ""
	}
	return string(text)
}

func ctrProgram(args []string) error {
	images, err := os.ReadFile(imageList)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	switch args[3] {
	case "list", "check":
		want, label, _ := strings.Cut(strings.TrimPrefix(args[len(args)-1], "name=="), ",")
		there := strings.Fields(string(images))
		if slices.Contains(there, want) && (label == "" || slices.Contains(there, label+"@"+want)) {
			fmt.Println(want)
		}
	case "pull":
		hosts, err := filepath.Glob("/run/eksnode/registries/*/hosts.toml")
		if err != nil || len(hosts) != 1 {
			return fmt.Errorf("there are no credentials: %v %v", hosts, err)
		}
		text, err := os.ReadFile(hosts[0])
		if err != nil || !bytes.Contains(text, []byte(base64.StdEncoding.EncodeToString([]byte("AWS:secret")))) {
			return fmt.Errorf("the credentials are wrong: %s %v", text, err)
		}
		return os.WriteFile(imageList, append(images, args[len(args)-1]+"\n"...), 0o644)
	case "import":
		return os.WriteFile(imageList, append(images, "localhost/kubernetes/pause:latest\n"...), 0o644)
	case "label":
		name, value, _ := strings.Cut(args[5], "=")
		return os.WriteFile(imageList, fmt.Appendf(images, "labels.%q==%s@%s\n", name, value, args[4]), 0o644)
	}
	return nil
}

// machineFolder returns a root with the programs and the files of an image.
func machineFolder(t *testing.T, kubelet, containerd string) string {
	t.Helper()
	root := t.TempDir()
	self := []byte(testkit.Content(t, "/proc/self/exe"))
	// The root has no shared libraries.
	require.False(t, strings.Contains(string(self[:4096]), "/ld-linux"), "the test must be static: run it with CGO_ENABLED=0, as make does")
	files := map[string][]byte{
		"/etc/os-release": []byte("ID=arch\n"), "/etc/hosts": []byte("127.0.0.1 localhost\n"),
		"/sys/fs/cgroup/cgroup.controllers": nil, "/run/systemd/system/.keep": nil, "/fake/units/.keep": nil, "/tmp/.keep": nil, "/proc/.keep": nil, os.DevNull: nil,
		"/usr/lib/systemd/system/systemd-resolved.service": nil,
	}
	files["/usr/bin/program"] = self
	m := manifest.Manifest{Assets: []manifest.Asset{
		{ID: "kubelet", Version: kubelet, Files: []manifest.File{{Path: "/usr/bin/kubelet", Size: int64(len(self))}}},
		{ID: "containerd", Version: containerd, Files: []manifest.File{{Path: "/usr/bin/containerd", Size: int64(len(self))}}},
	}}
	text, err := m.Encode()
	require.NoError(t, err)
	files[manifest.Path] = text
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), content, 0o755))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(root, "/etc/eks/image-credential-provider"), 0o755))
	for _, name := range []string{"/usr/bin/systemctl", "/usr/bin/ctr", "/usr/bin/mount", "/usr/bin/kubelet", "/usr/bin/containerd", "/etc/eks/image-credential-provider/ecr-credential-provider"} {
		require.NoError(t, os.Symlink("/usr/bin/program", filepath.Join(root, name)))
	}
	return root
}

// inMachine runs the named test again inside a root.
func inMachine(t *testing.T, root, test string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", testkit.InRoot, root, "-test.run", "^"+test+"$", "-test.v")
	cmd.Env = []string{"PATH=/usr/bin", "TMPDIR=/tmp", inside + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	testkit.Output(t, cmd)
}

// inside is the variable that is set in a test inside its root.
const inside = "EKSNODE_TEST_INSIDE"

// aws imitates the AWS APIs and records the requests.
type aws struct {
	asked     []string
	described node.Described
	err       error
}

func (a *aws) PrivateDNSName(_ context.Context, _, id string) (string, error) {
	a.asked = append(a.asked, "name of "+id)
	return "from-ec2", a.err
}

func (a *aws) InstanceLimits(_ context.Context, _, name string) (instance.Limits, error) {
	a.asked = append(a.asked, "limits of "+name)
	return instance.Limits{ENIs: 2, IPsPerENI: 4}, a.err
}

func (a *aws) DescribeCluster(_ context.Context, region, name string, attempts int) (node.Described, error) {
	a.asked = append(a.asked, fmt.Sprintf("cluster %s in %s, %d more times", name, region, attempts))
	return a.described, a.err
}

// world holds the Services of a test and their records.
type world struct {
	Services
	service  *imdstest.Service
	metadata *firstboot.Metadata
	aws      *aws
	log      []string
}

func surround(t *testing.T, i imdstest.Instance) *world {
	t.Helper()
	w := &world{service: imdstest.Serve(i), aws: &aws{}}
	t.Cleanup(w.service.Close)
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", w.service.URL)
	var err error
	w.metadata, err = firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	w.Services = Services{
		IMDS: w.metadata, AWS: func(context.Context, map[string]string) (AWS, error) { return w.aws, nil }, Command: "/usr/bin/eksnode",
		Lookup: func(_ context.Context, name string) ([]string, error) {
			return nil, errors.New("no such host: " + name)
		},
		Log: func(line string) { w.log = append(w.log, line) },
	}
	return w
}

// tree records the files and links in folders of a machine, by path: the time of the last change,
// a line end, and the properties.
func tree(t *testing.T, h *host.Host, folders ...string) map[string]string {
	t.Helper()
	all := testkit.Tree{}
	for _, folder := range folders {
		at := filepath.Join(h.Root(), folder)
		if _, err := os.Stat(at); err == nil {
			all.Note(t, at, filepath.Join("/", folder), nil, func(_, path string) string { return testkit.Content(t, path) })
		}
	}
	for name, properties := range all {
		info, err := os.Lstat(filepath.Join(h.Root(), name))
		require.NoError(t, err)
		if all[name] = fmt.Sprintf("%d\n%s", info.ModTime().UnixNano(), properties); info.IsDir() {
			delete(all, name)
		}
	}
	return all
}
