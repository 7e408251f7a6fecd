package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth = 900
	nameWidth  = 430
	plotWidth  = 380
	lineHeight = 26
	topMargin  = 64
	reach      = 32.0 // the ratio at either end of the scale, which is logarithmic
)

const (
	colourMet    = "#2e7d4f"
	colourMissed = "#c0392b"
	colourPlain  = "#7a869a"
)

// Chart draws how much better each row is than its peer, as an SVG. Right of the
// middle runlane does better, whether its figure is to be high or low; a tick on the
// line is the aim.
func Chart(rows []*Row) string {
	height := topMargin + lineHeight*len(rows) + 24
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	b.WriteString(`<text x="10" y="20" font-size="15" font-weight="bold">How many times better than the peer</text>` + "\n")
	fmt.Fprintf(&b, `<text x="10" y="38" fill="#555555">green: aim met; red: missed; grey: no aim. Black tick: the aim. Logarithmic.</text>`+"\n")
	for _, mark := range []float64{1.0 / 16, 1.0 / 4, 1, 4, 16} {
		x := position(mark)
		stroke := "#dddddd"
		if mark == 1 {
			stroke = "#333333"
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", x, topMargin-8, x, height-20, stroke)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555555">%s</text>`+"\n", x, topMargin-12, times(mark))
	}
	for i, r := range rows {
		writeBar(&b, r, topMargin+lineHeight*i)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func writeBar(b *strings.Builder, r *Row, y int) {
	gain := r.gain(r.Ratio())
	from, to := position(1), position(gain)
	colour := colourPlain
	if met := r.Aim.Met(r.Ratio()); met != nil && *met {
		colour = colourMet
	} else if met != nil {
		colour = colourMissed
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", nameWidth, y+16, html.EscapeString(shorten(r.Name+" · "+r.Peer, 68)))
	fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="14" fill="%s"/>`+"\n", min(from, to), y+5, max(1, math.Abs(to-from)), colour)
	if r.Aim.way != none {
		x := position(r.gain(r.Aim.limit))
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#000000" stroke-width="2"/>`+"\n", x, y+2, x, y+22)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", nameWidth+plotWidth+24, y+16, times(gain))
}

// gain is how many times better a ratio is than 1.
func (r *Row) gain(ratio float64) float64 {
	if r.lowIsGood() {
		return 1 / ratio
	}
	return ratio
}

// lowIsGood reports whether small figures are the better ones.
func (r *Row) lowIsGood() bool { return r.Unit == Micros || r.Unit == Bytes || r.Unit == Trips }

// position is where a gain lies on the scale. What is beyond its ends is drawn at them.
func position(gain float64) float64 {
	part := math.Log(min(max(gain, 1/reach), reach)) / math.Log(reach) // -1 to 1
	return nameWidth + 12 + plotWidth*(part+1)/2
}

func times(gain float64) string {
	if gain < 1 {
		return fmt.Sprintf("%.2g×", gain)
	}
	return fmt.Sprintf("%.3g×", gain)
}

func shorten(text string, most int) string {
	letters := []rune(text)
	if len(letters) <= most {
		return text
	}
	return string(letters[:most-1]) + "…"
}
