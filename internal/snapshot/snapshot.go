// Package snapshot writes disks to EBS snapshots, and reads snapshots into files,
// through the EBS direct APIs. No instance and no bucket is needed.
package snapshot

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Sum is the SHA-256 of a block.
type Sum = [sha256.Size]byte

// Sums are the checksums of the blocks of a snapshot.
type Sums map[int32]Sum

// linear is the SHA-256 of the checksums in the order of the blocks, as AWS computes it
// (https://docs.aws.amazon.com/ebs/latest/APIReference/API_CompleteSnapshot.html).
func (s Sums) linear() Sum {
	all := sha256.New()
	for _, index := range slices.Sorted(maps.Keys(s)) {
		sum := s[index]
		all.Write(sum[:])
	}
	return Sum(all.Sum(nil))
}

// Save writes the checksums of a snapshot to a file. A later upload with this snapshot
// as its parent reads them from there, instead of reading the whole snapshot.
func (s Sums) Save(path, snapshot string) error {
	err := Replace(path, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s\n", sumsHead, snapshot)
		for _, index := range slices.Sorted(maps.Keys(s)) {
			writeSum(w, index, s[index])
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the checksums to %s: %w", path, err)
	}
	return nil
}

// Replace writes a file of the cache folder, or leaves it as it was.
func Replace(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	w := bufio.NewWriter(f)
	err = fill(w)
	for _, next := range []func() error{w.Flush, f.Sync} {
		if err == nil {
			err = next()
		}
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// sumsHead begins the first line of a file of checksums. The ID of the snapshot
// follows.
const sumsHead = "eksnode-sums 1"

// LoadSums reads the checksums of a snapshot from a file.
func LoadSums(path, snapshot string) (Sums, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %w", err)
	}
	defer f.Close()
	sums, err := readSums(f, snapshot)
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %s%w", path, err)
	}
	return sums, nil
}

// readSums reads the checksums. Its error goes on from the name of the file.
func readSums(from io.Reader, snapshot string) (Sums, error) {
	lines := bufio.NewScanner(from)
	if !lines.Scan() || lines.Text() != sumsHead+" "+snapshot {
		return nil, fmt.Errorf(", line 1: the file has no checksums of the snapshot %s", snapshot)
	}
	sums, last := Sums{}, int32(-1)
	n := 2
	for ; lines.Scan(); n++ {
		index, sum, err := parseSum(lines.Text())
		if err == nil && index <= last {
			err = fmt.Errorf("the block %d is not in order", index)
		}
		if err != nil {
			return nil, fmt.Errorf(", line %d: %w", n, err)
		}
		sums[index], last = sum, index
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf(", line %d: %w", n, err)
	}
	return sums, nil
}

// writeSum writes a line with a block and its checksum. The writer keeps its error.
func writeSum(w io.Writer, index int32, sum Sum) {
	fmt.Fprintf(w, "%d %s\n", index, base64.StdEncoding.EncodeToString(sum[:]))
}

func parseSum(line string) (int32, Sum, error) {
	number, text, _ := strings.Cut(line, " ")
	index, err := strconv.ParseInt(number, 10, 32)
	if err != nil || index < 0 {
		return 0, Sum{}, fmt.Errorf("%q is not the number of a block", number)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		return 0, Sum{}, fmt.Errorf("block %d: %q is not a SHA-256 in Base64", index, text)
	}
	return int32(index), Sum(sum), nil
}

// BlockSize is the size of a block, in bytes.
const BlockSize = awsapi.BlockSize
