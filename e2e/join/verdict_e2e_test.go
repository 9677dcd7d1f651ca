//go:build e2e && full

package join_test

import (
	_ "embed"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Results of an instance.
const (
	joins    = "joins"
	degrades = "degrades"
	fails    = "does not join"
)

// trial is one instance that was started from an image with one leftover.
type trial struct {
	// Rule is the scrub rule for the leftover. Case names the exact leftover if a
	// rule has several.
	Rule string `json:"rule"`
	Case string `json:"case,omitempty"`
	// Paths are the leftover's paths.
	Paths []string `json:"paths"`
	// FirstBoot is how the instance got its cluster.
	FirstBoot string `json:"firstBoot"`
	Result    string `json:"result"`
	// Message is the message of the kubelet, containerd or the API server.
	Message string `json:"message,omitempty"`
	// Blamed is the cause that a diagnosis of the journal names first.
	Blamed string `json:"blamed,omitempty"`
	// Leaks are files of the running instance that still name the old cluster.
	Leaks []string `json:"leaks,omitempty"`
}

//go:embed testdata/messages.yaml
var messagesFile []byte

// messages is testdata/messages.yaml.
type messages struct{ Fatal, Other []string }

func knownMessages() (m messages) {
	if err := yaml.UnmarshalStrict(messagesFile, &m); err != nil {
		panic(err) // the file is part of the test
	}
	return m
}

func find(patterns []string, journal string) string {
	for _, pattern := range patterns {
		if found := regexp.MustCompile(pattern).FindString(journal); found != "" {
			found, _, _ = strings.Cut(found, "\n")
			found = strings.TrimRight(strings.ReplaceAll(found, `\`, ""), " ")
			if strings.Count(found, `"`)%2 == 1 {
				found += `"`
			}
			return found
		}
	}
	return ""
}

// hopeless finds the message in a kubelet's journal for which it does not become
// ready; nothing while there is none.
func hopeless(journal string) string { return find(knownMessages().Fatal, journal) }

// telling returns the most specific message in a journal; the last line if no
// message is known.
func telling(journal string) string {
	known := knownMessages()
	if found := find(slices.Concat(known.Fatal, known.Other), journal); found != "" {
		return found
	}
	return testkit.LastLine(journal)
}

// snapshot copies the disk of a running machine. The copy lacks data that the
// kernel has not written yet.
func snapshot(t *testing.T, i *instance, to string) { copyDisk(t, i.Disk(), to) }

func copyDisk(t *testing.T, from, to string) {
	t.Helper()
	testkit.Run(t, "cp", "--sparse=always", "--reflink=auto", from, to)
}

// After each fault the audit passes a clean image or refuses it, and the
// interrupted command can be completed. (Package e2e/node tests agents killed
// while provisioning, full disks and lost connections; e2e/scrub tests a kill
// before every single change of a scrub.)
func TestFaults(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	start := func(t *testing.T, id string) (*world, *instance) {
		w := w.in(t)
		i := w.launch(id, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
		w.works(w.a, i, id, wordOfA)
		return w, i
	}
	t.Run("captured while it runs, right after the scrub", func(t *testing.T) {
		w, i := start(t, "i-running")
		defer w.end(i)
		image := filepath.Join(w.Folder(), "running.raw")
		i.Sh(w.t, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes")
		snapshot(t, i, image)
		clean, said := lab.Disk(image).Audit(t)
		assert.True(t, clean, said)
		w.joinsB("i-of-running", image, w.b.nodeConfig())
	})
	t.Run("the scrub is killed and the power fails", func(t *testing.T) {
		w, i := start(t, "i-killed")
		defer w.end(i)
		image := filepath.Join(w.Folder(), "killed.raw")
		i.Sh(w.t, `umount -q /var/lib/cloud/seed/nocloud || true
eksnode scrub --yes > /run/scrub.log 2>&1 &
until grep -q kubelet-pki /run/scrub.log; do :; done
kill -KILL $!`)
		require.NoError(t, i.Kill())
		require.NoError(t, i.Capture(w.Ctx, image))
		clean, said := lab.Disk(image).Audit(t)
		files, _ := lab.Disk(image).Search(t, wordOfA)
		if clean {
			assert.Empty(t, files, "an image that passes must be clean")
		}
		w.step("the image's audit passes: %t; %d files name cluster A; %s", clean, len(files), testkit.LastLine(said))
		lab.Disk(image).Scrub(t)
		clean, said = lab.Disk(image).Audit(t)
		require.True(t, clean, said)
		w.joinsB("i-of-killed", image, w.b.nodeConfig())
	})
	t.Run("the disk is full", func(t *testing.T) {
		w, i := start(t, "i-full")
		image := filepath.Join(w.Folder(), "full.raw")
		i.Sh(w.t, `fallocate -l "$(df --output=avail -B1 /var/tmp | tail -1)" /var/tmp/full`)
		assert.Equal(t, "disk-full", w.blamed(i))
		i.Sh(w.t, "umount -q /var/lib/cloud/seed/nocloud || true; eksnode scrub --yes && eksnode audit")
		i.CaptureTo(t, image)
		clean, said := lab.Disk(image).Audit(t)
		require.True(t, clean, said)
		w.joinsB("i-of-full", image, w.b.nodeConfig())
	})
}
