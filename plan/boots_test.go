package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// nodeJournal is a journal of two boots with three messages, in systemd's compact form.
func nodeJournal(t *testing.T) []byte {
	return []byte(testkit.Expanded(t, "../internal/diagnose/testdata/node.journal.xz"))
}

// written is a journal in the older form, with offsets of eight bytes in two arrays: of
// boots with so many messages, a second apart.
func written(messages ...int) (journal []byte, want []Boot) {
	little := binary.LittleEndian
	journal = append([]byte("LPKSHHRH"), make([]byte, 200)...)
	var entries []uint64
	for boot, count := range messages {
		first := len(entries)
		for range count {
			at := uint64(len(journal))
			journal = append(journal, append([]byte{3}, make([]byte, 63)...)...)
			little.PutUint64(journal[at+24:], uint64(len(entries))*1e6)
			journal[at+40] = byte(boot)
			entries = append(entries, at)
		}
		want = append(want, Boot{time.Unix(int64(first), 0).UTC(), time.Unix(int64(len(entries)-1), 0).UTC()})
	}
	link := 176
	for _, some := range [][]uint64{entries[:3], entries[3:]} {
		little.PutUint64(journal[link:], uint64(len(journal)))
		link = len(journal) + 16
		journal = append(journal, 6, 0, 0, 0, 0, 0, 0, 0)
		journal = append(little.AppendUint64(journal, uint64(24+8*len(some))), make([]byte, 8)...)
		for _, at := range some {
			journal = little.AppendUint64(journal, at)
		}
	}
	little.PutUint64(journal[152:], uint64(len(entries)))
	return journal, want
}

// The boots are those that journalctl lists.
func TestBootsAreThoseOfJournalctl(t *testing.T) {
	journal := nodeJournal(t)
	boots := func(content []byte) (string, []Boot) {
		h := hosttest.Root(t, map[string]string{
			"/var/log/journal/0123/system.journal": string(content), "/var/log/journal/0123/system@1.journal": "LPKSHHRH",
			"/var/log/journal/0123/user-1000.journal": "x",
		})
		return filepath.Join(h.Root(), "var/log/journal/0123/system.journal"), Boots(t.Context(), h)
	}
	file, found := boots(journal)
	out, err := exec.CommandContext(t.Context(), "journalctl", "--list-boots", "--output=json", "--file="+file).Output()
	require.NoError(t, err)
	var listed []struct {
		First int64 `json:"first_entry"`
		Last  int64 `json:"last_entry"`
	}
	require.NoError(t, json.Unmarshal(out, &listed))
	require.Len(t, listed, 2)
	var want []Boot
	for _, b := range listed {
		want = append(want, Boot{time.UnixMicro(b.First).UTC(), time.UnixMicro(b.Last).UTC()})
	}
	assert.Equal(t, want, found)
	journal, want = written(5, 1, 30, 2, 1)
	_, found = boots(journal)
	assert.Equal(t, want, found)
	assert.Empty(t, Boots(t.Context(), hosttest.Root(t, map[string]string{"/var/log/journal/": ""})))
}

// A damaged journal neither stops a report nor fills the memory.
func TestDamagedJournalsEnd(t *testing.T) {
	journal := nodeJournal(t)
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1)) // #nosec G404: the same damage each time
		damaged := bytes.Clone(journal[:1<<16])
		for range 1 + random.IntN(20) {
			damaged[random.IntN(300)] = byte(random.Uint32())
		}
		found := map[string]Boot{}
		readBoots(bytes.NewReader(damaged[:random.IntN(len(damaged))]), found)
		assert.LessOrEqual(t, len(found), bootsMost, "seed %d", seed)
	}
	// A chain of arrays. Each claims a GiB.
	hostile := make([]byte, 200+100*24)
	copy(hostile, "LPKSHHRH")
	binary.LittleEndian.PutUint64(hostile[152:], 1<<40)
	binary.LittleEndian.PutUint64(hostile[176:], 200)
	for at := 200; at < len(hostile); at += 24 {
		hostile[at] = 6
		binary.LittleEndian.PutUint64(hostile[at+8:], 1<<30)
		binary.LittleEndian.PutUint64(hostile[at+16:], uint64(at+24))
	}
	assert.Less(t, testkit.Allocated(func() { readBoots(bytes.NewReader(hostile), map[string]Boot{}) }), uint64(1<<24))
}
