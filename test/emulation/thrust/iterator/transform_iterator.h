/* transform_iterator.h: the part of Thrust's iterator that cuda/ uses. */
#ifndef GPUSORT_EMULATED_TRANSFORM_ITERATOR_H
#define GPUSORT_EMULATED_TRANSFORM_ITERATOR_H

#include <stdint.h>

namespace thrust
{
	template <class F, class It, class Value = void> struct transform_iterator
	{
		It			base;
		F			f;

		transform_iterator(It from, F with)
			: base(from), f(with)
		{
		}

		auto operator[] (uint64_t i) const
		{
			return f(base[i]);
		}
	};
}

#endif
