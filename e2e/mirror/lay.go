package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Lay copies the assets to their places below folder, which it makes, and
// writes their checksum files.
func Lay(ctx context.Context, folder string, assets ...Asset) error {
	sums := map[string]string{}
	for _, asset := range assets {
		place, err := Place(asset.URL)
		if err != nil {
			return err
		}
		sum, err := copyFile(ctx, filepath.Join(folder, place), asset.File)
		if err != nil {
			return fmt.Errorf("writing %s into the mirror: %w", place, err)
		}
		if asset.SumURL == "" {
			continue
		}
		sumPlace, err := Place(asset.SumURL)
		if err != nil {
			return err
		}
		sums[sumPlace] += strings.NewReplacer("%[1]s", sum, "%[2]s", path.Base(place)).Replace(string(asset.SumForm))
	}
	for place, text := range sums {
		name := filepath.Join(folder, place)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			return fmt.Errorf("writing %s into the mirror: %w", place, err)
		}
	}
	return nil
}

// copyFile copies a file and returns its SHA-256 in hexadecimal.
func copyFile(ctx context.Context, to, from string) (string, error) {
	in, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), in)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, out.Close(), ctx.Err())
}
