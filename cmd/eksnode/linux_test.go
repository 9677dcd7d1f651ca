package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCommandsThatNeedLinuxAreRefusedElsewhere(t *testing.T) {
	const node = "the command configures the node that it runs on; instances of an image from eksnode run the command at first boot"
	for line, want := range map[string]string{
		"scrub":                    `eksnode scrub needs Linux: the command deletes files through Linux system calls; run eksnode on the builder machine, or on a Linux machine with --root and the image mounted, or use the Packer provisioner "eksnode-scrub" from here`,
		"scrub --root /mnt":        `eksnode scrub needs Linux: `,
		"scrub --no-such-flag":     `eksnode scrub needs Linux: `,
		"audit":                    "eksnode audit needs Linux: the command reads files through Linux system calls; run eksnode on the builder machine, or on a Linux machine with --root and the image mounted",
		"provision":                `eksnode provision needs Linux: the command changes the machine that it runs on; run eksnode on the builder machine, or use the Packer provisioner "eksnode" from here`,
		"init":                     "eksnode init needs Linux: " + node,
		"boot-hook":                "eksnode boot-hook needs Linux: " + node,
		"nodeadm":                  "eksnode nodeadm needs Linux: " + node,
		"nodeadm init":             "eksnode nodeadm init needs Linux: " + node,
		"nodeadm config check":     "eksnode nodeadm config check needs Linux: " + node,
		"bootstrap.sh":             "eksnode bootstrap.sh needs Linux: " + node,
		"bootstrap.sh x --unknown": "eksnode bootstrap.sh needs Linux: " + node,
		"token":                    "eksnode token needs Linux: the command signs with the credentials of the node that it runs on; run aws eks get-token from here",
		"agent":                    "eksnode agent needs Linux: the Packer plugin runs the command on the builder machine; use the plugin from here",
		"diagnose":                 "eksnode diagnose needs Linux: without arguments, the command reads the journal of this machine, and with --root that of an image root; name the logs of a node",
		"version --image":          "eksnode version needs Linux: with --image, the command reads the manifest of a machine or an image root; run eksnode on that machine",
	} {
		for _, goos := range []string{"darwin", "windows"} {
			t.Run(goos+" "+line, func(t *testing.T) {
				var out, errOut strings.Builder
				assert.Equal(t, usageCode, runOn(t.Context(), goos, strings.Fields(line), strings.NewReader(""), &out, &errOut))
				assert.Empty(t, out.String())
				assert.Equal(t, 1, strings.Count(errOut.String(), "\n"), errOut.String())
				assert.Contains(t, errOut.String(), want)
				assert.True(t, strings.HasPrefix(errOut.String(), "eksnode "), errOut.String())
			})
		}
	}
}

func TestOtherCommandsWorkOnEverySystem(t *testing.T) {
	log := filepath.Join(t.TempDir(), "kubelet.log")
	require.NoError(t, os.WriteFile(log, []byte("all is well\n"), 0o644))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "."},
		{[]string{"distros"}, "debian"},
		{[]string{"diagnose", log}, ""},
		{[]string{"lock", "--help"}, "eksnode lock"},
		{[]string{"preflight", "--help"}, "eksnode preflight"},
		{[]string{"manifests", "--help"}, "eksnode manifests"},
		{[]string{"userdata", "--help"}, "eksnode userdata"},
		{[]string{"ami", "--help"}, "eksnode ami"},
		{[]string{"scrub", "--help"}, "eksnode scrub"},
	} {
		for _, goos := range []string{"darwin", "windows", "linux"} {
			var out, errOut strings.Builder
			assert.Zero(t, runOn(t.Context(), goos, c.args, strings.NewReader(""), &out, &errOut), "%s: %s", c.args, errOut.String())
			assert.Contains(t, out.String(), c.want, c.args)
			assert.Empty(t, errOut.String(), c.args)
		}
	}
}

// The help marks commands that need Linux. Every row of the list is an existing
// command.
func TestTheHelpMarksCommandsThatNeedLinux(t *testing.T) {
	cmd := root()
	refuseLinuxCommands(cmd)
	marked := map[string]bool{}
	for _, sub := range cmd.Commands() {
		need, listed := linuxNeeds()[sub.Name()]
		assert.Equal(t, listed && need.needs == nil, strings.HasSuffix(sub.Short, " (needs Linux)"), sub.Name())
		marked[sub.Name()] = listed
	}
	for name := range linuxNeeds() {
		assert.True(t, marked[name], name)
	}
}

// The test compiles one architecture per system. The release compiles the others.
func TestTheCommandCompilesForWorkstations(t *testing.T) {
	for _, system := range []string{"darwin/arm64", "windows/amd64"} {
		goos, goarch, _ := strings.Cut(system, "/")
		build := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, ".")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		out, err := build.CombinedOutput()
		require.NoError(t, err, "%s: %s", system, out)
	}
}
