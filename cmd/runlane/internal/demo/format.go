package demo

import (
	"fmt"
	"strconv"
	"time"
)

// count shows a number with its thousands apart.
func count[T int | int64](n T) string {
	text := strconv.FormatInt(int64(n), 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func percent(part, whole int) string {
	return fmt.Sprintf("%d %%", 100*int64(part)/int64(max(whole, 1)))
}

// perSecond is a rate, rounded; 0 if there was no time.
func perSecond[T int | int64](n T, d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int(float64(n)/d.Seconds() + 0.5)
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.0f MB", float64(bytes)/(1<<20)) }
