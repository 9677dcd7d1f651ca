package access

import (
	"fmt"
	"path/filepath"
	"time"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
)

// Meter prints the progress of a transfer with disks, and lines of other kinds.
type Meter struct {
	*console.Transfer
	ui packersdk.Ui
}

// NewMeter returns a meter that prints every ten seconds.
func NewMeter(ui packersdk.Ui) Meter {
	return Meter{&console.Transfer{Say: ui.Say, Now: time.Now, Every: 10 * time.Second}, ui}
}

// Line prints a line of another kind.
func (m Meter) Line(format string, args ...any) { m.ui.Say(fmt.Sprintf(format, args...)) }

// Blocks prints the progress of a transfer by blocks.
func (m Meter) Blocks(p snapshot.Progress) { m.Print(p.Bytes()) }

// Cache is the cache of the disks of snapshots, below the folder for downloads.
func (m Meter) Cache(folder string) snapshot.Cache {
	return snapshot.Cache{
		Folder: filepath.Join(folder, "snapshots"), Say: m.Line, Download: snapshot.Download{Progress: m.Blocks},
	}
}
