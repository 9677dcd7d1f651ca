package plan

import "fmt"

// Size prints a number of bytes in the binary unit that keeps it short.
func Size(bytes int64) string {
	const step = 1024
	if bytes < step {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		value, unit = value/step, u
		if value < step {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
